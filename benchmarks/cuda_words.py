"""How figures of the GPU benchmark are put into words."""

from typing import Any

from pictures import short

Record = dict[str, Any]


def busy_ms(row: Record) -> float:
    """Milliseconds of work on the device."""
    return float(sum(row["kinds"]["device_ms"].values()))


def host_ms(row: Record) -> float:
    """The rest of the time; none where the profiled run was the slower."""
    return max(0.0, 1e3 * float(row["cuda"]["median"]) - busy_ms(row))


def words(row: Record) -> str:
    """A workload in words."""
    size = f"{short(row['n'])} rows, {short(row['m'])} labeled"
    pool = {"generated": size, "clusters": f"1,000 clusters, {size}"}.get(row["data"], "real pool")
    scaled = "scaled" if row["is_scaled"] else "unscaled"
    beam = f", beam {row['beam']}" if row["beam"] > 1 else ""
    source = ", from logits" if row.get("source") == "logits" else ""
    return f"{pool}, {short(row['budget'])} picks, {scaled}{beam}{source}"


def spread(timing: Record) -> str:
    """Median, least and most."""
    median, least, most = (1e3 * timing[name] for name in ("median", "least", "most"))
    return f"{milliseconds(median)} ({digits(least)} to {digits(most)})"


def milliseconds(value: float) -> str:
    """With the unit."""
    return f"{digits(value)} ms"


def digits(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def times(ratio: float) -> str:
    """A ratio."""
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.1f}×" if ratio >= 1 else f"{ratio:.2f}×"
