"""What is embedded: folders of pictures, tables of texts or of pictures, data sets of Hugging Face."""
