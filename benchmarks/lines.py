"""How much code is there? Lines without docstrings, comments and blanks, by package."""

import ast
import tokenize
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src/pril"
SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def code_lines(path):
    """Return the number of lines of a file that hold code."""
    lines = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in (*SKIPPED, tokenize.ENCODING, tokenize.ENDMARKER):
                lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines)


if __name__ == "__main__":
    packages, longest = Counter(), []
    for path in SOURCE.rglob("*.py"):
        packages[path.relative_to(SOURCE).parts[0].removesuffix(".py")] += code_lines(path)
        longest.append((len(path.read_text().splitlines()), path.relative_to(SOURCE)))
    for name, lines in packages.most_common():
        print(f"{lines:6} {name}")
    print(f"{sum(packages.values()):6} lines of code in all")
    for lines, path in sorted(longest, reverse=True):
        if lines > 600:
            print(f"{path} has {lines} lines, with docstrings and comments")
