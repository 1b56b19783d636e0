"""
The same table as Parquet files of several codecs. Writes houses-*.parquet beside itself.
Usage: pip install pyarrow==25.0.1; python3 tables.py
"""
import os

import pyarrow as pa
import pyarrow.parquet as pq

here = os.path.dirname(os.path.abspath(__file__))
table = pa.table(
    {
        "area": pa.array([50.0, 80.5, None, 120.0], pa.float32()),
        "rooms": pa.array([2, 3, 4, 5], pa.int64()),
        "town": pa.array(["Ulm", "Köln", "Ulm", None]),
        "new": pa.array([True, False, True, True]),
        "price": pa.array([100, 200, 300, 400], pa.int32()),
    }
)
for codec in ["snappy", "zstd", "gzip", "none"]:
    pq.write_table(table, os.path.join(here, f"houses-{codec}.parquet"), compression=codec)
pq.write_table(pa.table({"x": [[1, 2], [3]], "y": [1, 2]}), os.path.join(here, "lists.parquet"))
