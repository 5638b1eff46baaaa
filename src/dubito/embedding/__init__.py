"""Turn a folder of pictures or a table of texts into a pool file: `embed`, its embedders, and its sources of items.

`api.embed` opens a source of items (`opening`), makes the embedder that was named (`registry`), embeds shard by shard
(`pipeline`), and writes every shard when it is complete (`store`), so that an interrupted run can be resumed.

This file imports nothing, which keeps the start of the processes that decode pictures fast.
"""
