"""Makes the files of this folder, each by a tool that people make such files with.

    pip install weasyprint==70.0 typst==0.15.2 reportlab==5.1.0 pypandoc-binary==1.17 \
        nbclient==0.11.0 ipykernel pandas polars XlsxWriter
    python make.py        # chromium 156 must be on the path for chromium.pdf

This is beside the extra "dev". Made with XlsxWriter 3.3.1, polars 2.1.0, pandoc 3.9, pandas 3.1.1,
FastAPI 0.165.0, PyYAML and Python's own csv and mailbox. Tests read the files; none runs this.
"""

import csv
import json
import mailbox
import subprocess
from email.message import EmailMessage
from pathlib import Path
from typing import Annotated

import nbformat
import polars
import pypandoc
import typst
import weasyprint
import xlsxwriter
import yaml
from fastapi import FastAPI, Query
from fastapi import Path as InPath
from nbclient import NotebookClient
from pydantic import BaseModel, Field
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate

HERE = Path(__file__).parent
SOURCES = HERE / "sources"


def workbooks():
    book = xlsxwriter.Workbook(HERE / "xlsxwriter.xlsx")
    shown = book.add_worksheet("Stock")
    shown.write_row("A1", ["Item", "Code", "Price", "Cost", "Time"])
    money, code = book.add_format({"num_format": "#,##0.00 [$€-407]"}), {"num_format": "00000"}
    goods = [("Tea", 1067, 1234.5, 1), ("Rye", 12, 3, 2)]
    for row, (item, number, price, cost) in enumerate(goods):
        shown.write_row(row + 1, 0, [item])
        shown.write(row + 1, 1, number, book.add_format(code))
        shown.write(row + 1, 2, price, money)
        shown.write(row + 1, 3, cost)
        shown.write(row + 1, 4, 1.5 * (row + 1), book.add_format({"num_format": "[h]:mm"}))
    shown.write("A4", "Total")
    shown.write_formula("C4", "=SUM(C2:C3)", money)
    shown.write_formula("E4", "=2*3", None, 6)
    shown.write("A5", "Draft")
    shown.set_row(4, None, None, {"hidden": True})
    shown.set_column("D:D", None, None, {"hidden": True})
    shown.write_comment("A2", "Green tea")
    hidden = book.add_worksheet("Notes")
    hidden.write("A1", "secret")
    hidden.hide()
    filtered = book.add_worksheet("Orders")
    filtered.write_column("A1", ["Name", "Ada", "Bo"])
    filtered.write_column("B1", ["Sum", 5, 7])
    filtered.autofilter("A1:B3")
    filtered.filter_column("A", "x == Ada")
    filtered.set_row(2, None, None, {"hidden": True})
    book.close()
    frame = polars.DataFrame({"Item": ["Tea", "Rye"], "Price": [2.5, 3.0]})
    frame.write_excel(HERE / "polars.xlsx", formulas={"Double": "=[@Price]*2"})


def tables():
    with open(HERE / "semicolons.csv", "w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerows([("Artikel", "Preis, netto"), ("Tee", "1,50"), ("Rum; alt", "12,00")])


def notebook():
    code = [
        "import pandas as pd\nfees = pd.DataFrame({'Plan': ['Amber', 'Birch'], 'Price': [12, 20]})",
        "fees",
        "print('The mean is', fees.Price.mean())",
        "fees.Price.sum()",
        "print('line ' * 1_000)",
        "import sys; print('careful', file=sys.stderr)",
        f"from IPython.display import Image\nimport base64\nImage(base64.b64decode('{PIXEL}'))",
        "1 / 0",
    ]
    cells = [nbformat.v4.new_markdown_cell("# Fees\n\nWhat plans cost.")]
    cells += [nbformat.v4.new_code_cell(one) for one in code]
    book = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(book, allow_errors=True).execute()
    nbformat.write(book, HERE / "nbclient.ipynb")


PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)


def markup():
    forms = {
        **{"odt": "odt", "rtf": "rtf", "tex": "latex", "org": "org", "adoc": "asciidoc"},
        **{"textile": "textile", "1": "man", "dbk": "docbook5", "fb2": "fb2", "opml": "opml"},
        "mediawiki": "mediawiki",
    }
    for suffix, form in forms.items():
        command = [pypandoc.get_pandoc_path(), "--standalone", "--to", form, "--output"]
        path = HERE / f"rules.{suffix}"
        subprocess.run([*command, path, SOURCES / "rules.md"], check=True)
    for kind in ("docx", "html", "epub"):
        options = ["--standalone", "--mathml", "--metadata=title=Terms"]
        name = str(HERE / f"pandoc.{kind}")
        pypandoc.convert_file(SOURCES / "notes.md", kind, "markdown", options, outputfile=name)


def mails():
    (HERE / "python.mbox").unlink(missing_ok=True)
    box = mailbox.mbox(HERE / "python.mbox")
    texts = {"Fees": "Late books cost five euros.", "Hours": "From nine.\nFrom Ada"}
    for subject, text in texts.items():
        message = EmailMessage()
        message["Subject"], message["From"] = subject, "ada@example.com"
        message["To"], message["Date"] = "bo@example.com", "Fri, 01 Mar 2024 09:30:00 +0000"
        message.set_content(text)
        if subject == "Fees":
            message.add_attachment(b"1,2", maintype="text", subtype="csv", filename="fees.csv")
        box.add(message)
    box.close()


def interface():
    app = FastAPI(title="Pet shop", version="1.0", description="Sells pets.")

    class Pet(BaseModel):
        name: str = Field(description="What it is called")
        parent: "Pet | None" = None

    @app.get("/pets/{pet_id}", summary="Find a pet")
    def find(
        pet_id: Annotated[int, InPath(description="The number on its collar")],
        limit: Annotated[int, Query(le=100)] = 20,
    ) -> Pet: ...

    @app.post("/pets", summary="Add a pet", deprecated=True)
    def add(pets: list[Pet]) -> None: ...

    described = app.openapi()
    (HERE / "fastapi.json").write_text(json.dumps(described, indent=1))
    (HERE / "pyyaml.yaml").write_text(yaml.safe_dump(described))  # in the order of the alphabet


def pages():
    chromium = ["chromium", "--headless", "--no-sandbox", "--no-pdf-header-footer"]
    made = f"--print-to-pdf={HERE / 'chromium.pdf'}"
    subprocess.run([*chromium, made, SOURCES / "page.html"], check=True)
    weasyprint.HTML(SOURCES / "page.html").write_pdf(HERE / "weasyprint.pdf")
    typst.compile(SOURCES / "page.typ", output=HERE / "typst.pdf")
    text = "It is 50<super>1</super> euros, or 10<super>6</super> or 10<super>-6</super> of "
    text += "H<sub>2</sub>O. Read on.<super>2</super> Then go."
    story = [Paragraph(text, getSampleStyleSheet()["BodyText"])]
    SimpleDocTemplate(str(HERE / "reportlab.pdf"), invariant=1).build(story)


if __name__ == "__main__":
    for make in (workbooks, tables, notebook, markup, mails, interface, pages):
        make()
