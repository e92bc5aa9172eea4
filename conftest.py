"What pytest needs to know about notebooks."


def pytest_collection_modifyitems(items):
    "nbdev_clean takes execution counts away, which nbval would read as cells that were never run."
    for item in items:
        cell = getattr(item, "cell", None)
        if cell is not None and cell.get("outputs"): cell.execution_count = cell.execution_count or 1
