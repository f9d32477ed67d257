#!/bin/sh
# pandoc 3.9 (of pypandoc-binary 1.17) loses the formulas of OpenDocument texts that it wrote itself.
# Expected: what pandoc writes as odt, it reads again. Seen: "The area is $x^2$." comes back as "The
# area is .", without a warning, since it writes the reference to the formula as "Formula-0/". With
# "./Formula-0", as LibreOffice writes it, the same file is read with its formula.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "pypandoc-binary==1.17"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import subprocess
import sys
import zipfile
from pathlib import Path

import pypandoc

folder, pandoc = Path(sys.argv[1]), pypandoc.get_pandoc_path()
written, changed = folder / "written.odt", folder / "changed.odt"
version = subprocess.run([pandoc, "--version"], capture_output=True, text=True, check=True)
print(version.stdout.split("\n")[0])
subprocess.run([pandoc, "-f", "markdown", "-o", written], input=b"The area is $x^2$.", check=True)
with zipfile.ZipFile(written) as old, zipfile.ZipFile(changed, "w") as new:
    for name in old.namelist():
        content = old.read(name)
        if name == "content.xml":
            content = content.replace(b'"Formula-0/"', b'"./Formula-0"')
        new.writestr(name, content)


def read(path):
    command = [pandoc, "-f", "odt", "-t", "plain", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr.strip()


print("as written:", read(written))
print("with the reference as LibreOffice has it:", read(changed))
assert read(written) == ("The area is .", "")
assert "x" in read(changed)[0]
PYTHON
