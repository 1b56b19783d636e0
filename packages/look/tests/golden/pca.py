"""Principal components by numpy's SVD in f64: python3 packages/look/tests/golden/pca.py"""
import json
import pathlib
import numpy as np

rng = np.random.default_rng(12)


def case(count, features, rank):
    rows = rng.standard_normal((count, rank)) @ rng.standard_normal((rank, features))
    rows = (rows * np.linspace(0.5, 2, features) + rng.standard_normal((count, features)) * 0.1 + 3).astype(np.float32)
    centred = rows.astype(np.float64) - rows.astype(np.float64).mean(0)
    _, s, directions = np.linalg.svd(centred, full_matrices=False)
    directions = directions[:2]
    directions *= np.sign(directions[np.arange(2), np.abs(directions).argmax(1)])[:, None]
    return {
        "rows": rows.tolist(),
        "explained": (s**2 / (s**2).sum())[:2].tolist(),
        "directions": directions.tolist(),
        "points": (centred @ directions.T).tolist(),
    }


path = pathlib.Path(__file__).with_name("pca.json")
path.write_text(json.dumps({"tall": case(40, 7, 3), "wide": case(9, 30, 4)}) + "\n")
