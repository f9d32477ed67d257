"""Make the files beside this script, as the tools write them.

    pip install weasyprint==70.0 typst==0.15.2 reportlab==5.1.0 pypandoc-binary==1.17
    python make.py        # chromium 156 must be on the path for chromium.pdf

Tests read the files; they run the script for none.
"""

import subprocess
from pathlib import Path

import pypandoc
import typst
import weasyprint
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import Paragraph, SimpleDocTemplate

HERE = Path(__file__).parent
PAGE = """<meta charset="utf-8"><html lang="en"><style>
body {width: 9cm; hyphens: auto; text-align: justify; font: 12pt serif}
</style><body><p>It is 50<sup>1</sup> euros, or 10<sup>6</sup> or 10<sup>−6</sup> of
H<sub>2</sub>O. Read on.<sup>2</sup> Extraordinary circumstances notwithstanding, the
internationalization simplifies administrative responsibilities and well-known
multi-purpose characteristics throughout.</p></body></html>"""
TYPST = """
#set page(width: 9cm, height: 9cm)
#set text(hyphenate: true, font: "Libertinus Serif")
#set par(justify: true)
It is 50#super[1] euros, or $10^6$ or $10^(-6)$ of H#sub[2]O. Read on.#footnote[Not always.]
Extraordinary circumstances notwithstanding, internationalization simplifies
administrative responsibilities and well-known multi-purpose characteristics throughout.
"""
NOTES = """
# Fees

The fee is $\\frac{a}{b}$[^1] or 10^6^ of H~2~O.

- [x] paid
- [ ] sent

# Closed on Mondays

# Other

More[^2].

[^1]: Per year.
[^2]: Or less.
"""

if __name__ == "__main__":
    (HERE / "page.html").write_text(PAGE, encoding="utf-8")
    chromium = ["chromium", "--headless", "--no-sandbox", "--no-pdf-header-footer"]
    made = f"--print-to-pdf={HERE / 'chromium.pdf'}"
    subprocess.run([*chromium, made, str(HERE / "page.html")], check=True)
    (HERE / "page.html").unlink()
    weasyprint.HTML(string=PAGE).write_pdf(HERE / "weasyprint.pdf")
    (HERE / "typst.typ").write_text(TYPST, encoding="utf-8")
    typst.compile(HERE / "typst.typ", output=HERE / "typst.pdf")
    (HERE / "typst.typ").unlink()
    text = "It is 50<super>1</super> euros, or 10<super>6</super> or 10<super>-6</super> of "
    text += "H<sub>2</sub>O. Read on.<super>2</super> Then go."
    story = [Paragraph(text, getSampleStyleSheet()["BodyText"])]
    SimpleDocTemplate(str(HERE / "reportlab.pdf"), invariant=1).build(story)
    for kind in ("docx", "html", "epub"):
        name = str(HERE / f"pandoc.{kind}")
        options = ["--standalone", "--mathml", "--metadata=title=Terms"]
        pypandoc.convert_text(NOTES, kind, "markdown", options, outputfile=name)
