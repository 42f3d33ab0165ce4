"""An archive that is cut off, one with forged sizes, and one that is something else altogether."""

EXERCISE = "scaling_ex01"


def plant(entry, course):
    import io
    import zipfile

    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("modules/x.py", "x" * 1000)
    raw = bytearray(data.getvalue())
    raw[18:26] = b"\xff" * 8  # the sizes in the member's own header
    with open(f"{entry}.zip", "wb") as file:
        file.write(bytes(raw[:-10]))
