#!/bin/sh
# python-pptx 1.0.2 lists no shape that stands in mc:AlternateContent, which is where PowerPoint puts
# a text box as soon as it holds an equation: the title of such a slide is None, and its text is gone.
# Seen on 27 November 2026: "['Fees'] None []": the title before, then the title and the shapes after.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "python-pptx==1.0.2"
"$folder/venv/bin/python" - <<'PYTHON'
import io

from lxml import etree
from pptx import Presentation

MARKUP = "http://schemas.openxmlformats.org/markup-compatibility/2006"
DRAWING = "http://schemas.microsoft.com/office/drawing/2010/main"
show = Presentation()
slide = show.slides.add_slide(show.slide_layouts[5])
slide.shapes.title.text = "Fees"
before = [shape.text_frame.text for shape in slide.shapes]
shape = slide.shapes.title._element
names = {"mc": MARKUP, "a14": DRAWING}
both = etree.SubElement(shape.getparent(), f"{{{MARKUP}}}AlternateContent", nsmap=names)
etree.SubElement(both, f"{{{MARKUP}}}Choice", Requires="a14").append(shape)
file = io.BytesIO()
show.save(file)
slide = Presentation(file).slides[0]
seen = before, slide.shapes.title, [shape.text_frame.text for shape in slide.shapes]
print(*seen)
assert seen == (["Fees"], None, []), "it changed"
PYTHON
