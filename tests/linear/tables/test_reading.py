"""Tables as people have them: encodings, delimiters, decimal signs, missing values, and all problems at once."""

import shlex

import numpy as np
import pytest

from sparse_langevin.linear.tables.cells import is_missing, number
from sparse_langevin.linear.tables.kinds import Options, are_dates
from sparse_langevin.linear.tables.table import read_table

rng = np.random.default_rng(0)
X = np.round(rng.uniform(-2000, 2000, (12, 3)), 2)
TOWNS = ["Köln", "Graz", "Bern", "Köln", "Graz", "Bern"] * 2


def written(path, lines, encoding="utf-8", end="\n"):
    path.write_bytes(end.join(lines).encode(encoding))
    return path


def read(path, text, target="y", **options):
    return read_table(written(path / "t.csv", text if isinstance(text, list) else [text]), target, Options(**options))


def columns(table):
    return {column.name: column for column in table.columns}


def refusal(path, text, target="y", **options):
    with pytest.raises(ValueError) as error:
        read(path, text, target, **options)
    return str(error.value), getattr(error.value, "__notes__", [])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("decimal", ["point", "comma"])
@pytest.mark.parametrize("thousands", [False, True])
def test_the_same_table_in_48_ways(encoding, delimiter, decimal, thousands, tmp_path):
    def cell(value):
        text = f"{value:,.2f}" if thousands else f"{value:.2f}"
        return f'"{text.translate(str.maketrans(",.", ".,")) if decimal == "comma" else text}"'

    rows = [[*map(cell, x), f'"{town}"'] for x, town in zip(X, TOWNS, strict=True)]
    lines = [delimiter.join(row) for row in [["a", '"b; ,c"', "y", "Straße"], *rows]]
    table = read_table(written(tmp_path / "t.csv", lines, encoding, "\r\n"), "y")
    found = columns(table)
    np.testing.assert_array_equal(np.column_stack([found["a"].values, found["b; ,c"].values]), X[:, :2])
    np.testing.assert_array_equal(table.target.numbers, X[:, 2])
    assert found["Straße"].levels == ("Bern", "Graz", "Köln") and list(found["Straße"].values[:3]) == [2, 1, 0]
    assert any("Windows-1252" in text for text in table.remarks) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        *(("1.5", 1.5, None), ("1,5", None, 1.5), ("1,234", 1234.0, 1.234), ("1.234", 1.234, 1234.0)),
        *(("1,234,567.5", 1234567.5, None), ("1.234.567,5", None, 1234567.5), ("0,123", None, 0.123)),
        *(("12 345.5", 12345.5, None), ("12\u00a0345,5", None, 12345.5), ("1'234", 1234.0, 1234.0)),
        *(("\u22123e-2", -0.03, -0.03), ("+.5", 0.5, None), ("1,23", None, 1.23), ("12,34,567", None, None)),
        *((text, None, None) for text in ("1_0", "inf", "nan", "1e400", "e5", "", "-", "1 23", "١٢", "½", "0x10")),
    ],
)
def test_numbers(text, point, comma):
    assert number(text, "point") == point and number(text, "comma") == comma


def test_doubtful_decimal_signs_are_read_as_the_others_or_asked_about(tmp_path):
    lines = ["a;b;y", *(f"{i},5;{i + 1},{100 + i};{i * i}" for i in range(1, 9))]
    assert columns(read(tmp_path, lines))["b"].values[0] == 2.101
    lines = ['"a","b","y"', *(f'{i}.5,"{i + 1},{100 + i}",{i * i}' for i in range(1, 9))]
    table = read(tmp_path, lines)
    assert columns(table)["b"].values[0] == 2101 and "thousands separator" in table.remarks[0]
    lines = ["a;b;y", *(f"{i * i};{i + 1},{100 + i};{i * i}" for i in range(1, 9))]
    message, _ = refusal(tmp_path, lines)
    assert "'2,101'" in message and "--decimal comma or --decimal point" in message
    assert columns(read(tmp_path, lines, decimal="comma"))["b"].values[0] == 2.101
    assert columns(read(tmp_path, lines, decimal="point"))["b"].values[0] == 2101
    lines = ["a;b;y", *(f"{'1,5' if i == 3 else '2.5'};{i};{i * i}" for i in range(1, 9))]
    assert "decimal points ('2.5', line 2) and decimal commas ('1,5', line 4)" in refusal(tmp_path, lines)[0]


def test_missing_values(tmp_path):
    marks = ["", "NA", "NaN", "n/a", "-", "?", "null", "#N/A", "."]
    lines = ["a,b,y", *(f"{mark},{i},{i * i}" for i, mark in enumerate(marks)), *(f"{i},{i},3" for i in range(11))]
    found = columns(read(tmp_path, [*lines, "unknown,3,7", ",8,"], na=["unknown"]))
    assert np.isnan(found["a"].values[:9]).all() and np.isnan(found["a"].values[20]) and len(found["a"].values) == 21
    assert not is_missing("none") and not is_missing("0")
    remarks = " ".join(read(tmp_path, [*lines, "5,8,NA"]).remarks)
    assert "1 row (line 22) has no value of the target" in remarks


def test_limits_of_detection(tmp_path):
    lines = ["a,b,y", *(f"{'<0.5' if i % 3 == 0 else '>= 90' if i == 7 else i},{i**2},{i * i % 7}" for i in range(12))]
    message, _ = refusal(tmp_path, lines)
    assert (
        "5 values beyond a limit of detection ('<0.5', lines 2, 5, 8 and 2 more)" in message and "--ignore a" in message
    )
    for choice, low, high in [("half", 0.25, 90.0), ("limit", 0.5, 90.0), ("missing", np.nan, np.nan)]:
        values = columns(read(tmp_path, lines, censored=choice))["a"].values
        np.testing.assert_array_equal(values[[0, 1, 3, 7]], [low, 1.0, low, high])


def test_units_are_taken_off(tmp_path):
    lines = ["share,mass,code,y", *(f"{i}%,{i}.5 mg/l,{i % 3}a{i % 2},{i * i}" for i in range(12))]
    found = columns(read(tmp_path, lines))
    assert found["share"].unit == "%" and found["mass"].unit == "mg/l" and found["mass"].values[3] == 3.5
    assert len(found["code"].levels) == 6
    lines[4] = "2%,2500 µg/l,1a1,3"
    message, _ = refusal(tmp_path, lines)
    assert "the unit 'mg/l' in most rows, but not in line 5 ('2500 µg/l')" in message


@pytest.mark.parametrize(
    ("cells", "values", "unit"),
    [
        (["1.060,21 €", "480,00 €", "12,50 €"], [1060.21, 480.0, 12.5], "€"),
        (["15\u202f060,21\u00a0€", "480,00\u00a0€", "0,05\u00a0€"], [15060.21, 480.0, 0.05], "€"),
        (["€ 1,060.21", "€ 480.00", "€ 12.50"], [1060.21, 480.0, 12.5], "€"),
        (["12 000 kg", "800 kg", "1 500 kg"], [12000.0, 800.0, 1500.0], "kg"),
        (["\u22123,5 °C", "0,5 °C", "+2,0 °C"], [-3.5, 0.5, 2.0], "°C"),
        (["1.5e-3", "2.5", "3.5"], [0.0015, 2.5, 3.5], ""),
    ],
)
def test_units_behind_numbers_as_countries_write_them(cells, values, unit, tmp_path):
    table = read(tmp_path, ["a;y", *(f"{i * i};{cell}" for i, cell in enumerate(cells * 5))])
    assert table.target.numbers.tolist() == values * 5 and table.target.unit == unit
    table = read(tmp_path, ["a;y", *(f"{cell};{i * i}" for i, cell in enumerate(cells * 5))])
    assert columns(table)["a"].values.tolist() == values * 5


def test_thousands_with_a_unit_are_asked_about(tmp_path):
    lines = ["a;y", *(f"{i + 1},{100 + i} kg;{i * i}" for i in range(12))]
    assert "'1,100 kg'" in refusal(tmp_path, lines)[0]
    assert columns(read(tmp_path, lines, decimal="point"))["a"].values[1] == 2101


def test_limits_of_detection_with_a_unit(tmp_path):
    lines = ["a;b;y", *(f"{'<0,5' if i % 3 else f'{i},7'} mg/L;{i**2};{i * i % 7}" for i in range(12))]
    assert "column 'a' holds 8 values beyond a limit of detection ('<0,5 mg/L'" in refusal(tmp_path, lines)[0]
    found = columns(read(tmp_path, lines, censored="half"))["a"]
    assert found.values.tolist() == [0.25 if i % 3 else i + 0.7 for i in range(12)] and found.unit == "mg/L"
    bare = ["a;b;y", *(f"{'<0,5 mg/L' if i == 3 else i};{i**2};{i * i % 7}" for i in range(12))]
    assert "'<0,5 mg/L' in line 5 is no number" in refusal(tmp_path, bare, censored="half")[0]
    lines[2] = "<0,5 g/L;1;1"
    assert "the unit 'mg/L' in most rows, but not in line 3 ('<0,5 g/L')" in refusal(tmp_path, lines)[0]


def test_ranges_are_categories_and_no_limits_of_detection(tmp_path):
    lines = ["age,y", *(f"{['<30', '30-50', '>50'][i % 3]},{i * i}" for i in range(12))]
    assert columns(read(tmp_path, lines))["age"].levels == ("30-50", "<30", ">50")


def test_classes_that_are_spelled_differently(tmp_path):
    lines = [
        "sex,y",
        *(f"{['m', 'M', 'f'][i % 3]},{['yes', 'no', 'Yes', 'no way', 'noway'][i % 5]}" for i in range(30)),
    ]
    remarks = [text for text in read(tmp_path, lines).remarks if "upper and lower case" in text]
    assert len(remarks) == 2 and "'sex' tells 'M' and 'm' apart" in remarks[0]
    assert "'Yes' and 'yes', 'no way' and 'noway'" in remarks[1]
    numbers = read(tmp_path, ["a,y", *(f"{i * i},{i * i % 7}" for i in range(12))])
    assert not any("tells" in text for text in numbers.remarks)


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-31",
        "31.1.2024",
        "1/31/24",
        "2024-01-31 12:00",
        "2024-01-31T12:00:05Z",
        "31-Jan-2024",
        "Jan 31, 2024",
        "12:30",
    ],
)
def test_dates(text):
    assert are_dates("when", [text]) and not are_dates("when", [text, "5"])


def test_what_is_no_date():
    assert not any(are_dates("x", [text]) for text in ("1.5", "20240131", "2024-01", "1/2", "3-4-x", "0.1.2024.5"))
    assert are_dates("date", ["20240131"]) and not are_dates("date", ["20241331"])


def test_what_is_left_out(tmp_path):
    lines = ["id,name,when,same,void,rare,note,patientID,age,y"]
    for i in range(12):
        rare = 5 if i == 3 else ""
        lines.append(
            f"{i + 1},p{i},2024-01-{i + 1},7,,{rare},{'abcdefghia'[i % 10]}t,{900 - 7 * i},{20 + i * i},{i % 5}.5"
        )
    table = read(tmp_path, lines)
    assert list(columns(table)) == ["age"] and len(table.remarks) == 8
    assert columns(read(tmp_path, lines, keep=["id", "patientID"])).keys() == {"id", "patientID", "age"}
    assert columns(read(tmp_path, lines, category=["note"]))["note"].levels[0] == "at"
    numbers = columns(read(tmp_path, ["k,y", *(f"{i % 3},{i * i}" for i in range(12))], category=["k"]))
    assert numbers["k"].levels == ("0", "1", "2")


def test_all_problems_at_once_with_options_to_paste(tmp_path):
    """What the last line offers, pasted into a shell, makes the table readable."""
    lines = ["it's,free text,mixed unit,amount,ok,y"]
    for i in range(70):
        odd = "oops" if i == 7 else i
        lines.append(f"{odd},T{i % 32},{i}{' g' if i else ' kg'},{'<3' if i == 2 else i / 7},{i * i % 11},{i * i % 7}")
    message, notes = refusal(tmp_path, lines, keep=["o"])
    assert message.endswith("t.csv has 5 problems") and len(notes) == 6
    assert "there is no column 'o'" in notes[0] and "'oops' in line 9 is no number" in notes[1]
    words = shlex.split(notes[-1].split(": ", 1)[1])
    assert words[::2] == ["--ignore"] * 4 and words[1::2] == ["it's", "free text", "mixed unit", "amount"]
    assert list(columns(read(tmp_path, lines, ignore=words[1::2]))) == ["ok"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b", "1,2"], "needs a header and at least two rows, got 2 lines"),
        (
            ["a b y", "1 2 3", "2 3 4"],
            "no column 'y'; its columns are a b y; the fields of a line have to be separated",
        ),
        (["a,Y", "1,2", "3,4"], "there is no column 'y'"),
        (["a,weight_y", "1,2", "3,4"], "its columns are a, weight_y"),
        (["a,a,y", "1,2,3", "4,5,6"], "two columns named 'a', or more (columns 1, 2)"),
        (["a,y", "1,2", "2,3,4", "3,5"], "the header has 2 fields, but line 3 has 3"),
        (["1,2", "3,4", "5,6"], "the first line holds numbers only (1, 2)"),
        (["a,y", "1,5", "2,5", "3,5"], "the target 'y' has the same value, '5', everywhere"),
        (["a,y", "1,NA", "2,", "3,?"], "no row has a value of the target 'y'"),
        (
            ["a,y", "1,1", "2,2", "3,x", "4,4"],
            "'x' in line 4 is no number: correct it, or take it for missing with --na x",
        ),
        (
            ["a,y", "1,2", "#DIV/0!,3", "3,5", "#REF!,4", "5,8", "6,1"],
            "take them for missing with --na '#DIV/0!' --na '#REF!', or leave",
        ),
        (
            ["a,y", *(f"{i},{i % 7} or so" for i in range(12))],
            "the target 'y' holds 7 different texts in 12 rows (0 or so, 1 or so, 2 or so and 9 more), too many",
        ),
        (["a,y", "1,2024-01-01", "2,2024-01-02"], "the target 'y' holds dates"),
        (["a,y", "1,3", "1,4", "1,5"], "no column is left besides the target 'y'. Column 'a' has the same value"),
        (
            ["a,y", *(f"{i},w{i}" for i in range(60))],
            "has 60 different values that are not all numbers, and at most 50 classes",
        ),
        (["a,y", "1,3", "1e200,4", "1,5"], "column 'a' holds 1e+200, which is too large or too small to compute with"),
        (["a,y", "1,0", "3,1e-200", "1,2e-200"], "column 'y' holds 2e-200, which is too large or too small"),
        (["a,y", *(f"k{i % 40},{i}" for i in range(160))], "holds 40 different texts"),
    ],
)
def test_problems(lines, message, tmp_path):
    first, notes = refusal(tmp_path, lines)
    assert any(message in text for text in [first, *notes])


def test_a_name_that_is_nearly_right(tmp_path):
    assert "did you mean 'weight'" in refusal(tmp_path, ["a,weight", "1,2", "3,4"], "wieght")[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04\x14\x00", "is a workbook or another packed file, not a text file: save the table as CSV"),
        ("a,y\n1,2\n3,4\n".encode("utf-16-le"), "as it has zero bytes"),
        (b"a,y\n1,\x81\n3,4\n", "is not a text file in UTF-8, UTF-16 or Windows-1252"),
    ],
)
def test_files_that_are_no_text(data, message, tmp_path):
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "t.csv", "y")


def test_what_programs_write(tmp_path):
    """Excel's first line, names of rows as R writes them, an index without a name, quoted line breaks, empty lines."""
    assert read(tmp_path, ["sep=;", "a;y", "1;2", "2;5", ""]).target.numbers.tolist() == [2.0, 5.0]
    table = read(tmp_path, ['"a","y"', *(f'"r{i}",{i * i},{i}' for i in range(12))])
    assert list(columns(table)) == ["a"] and "'column 1' holds another text in every row" in table.remarks[0]
    table = read(tmp_path, [",a,y", *(f"{i},{i * i},{i % 5}" for i in range(12))])
    assert list(columns(table)) == ["a"] and "'column 1' numbers the rows" in table.remarks[0]
    table = read(tmp_path, ['"a\nb",y', "1,2", "", "2,3", "oops,4", "3,7"], na=["oops"])
    assert list(columns(table)) == ["a\nb"]


def test_oddities_are_remarked_upon(tmp_path):
    lines = ["a,b,c,d,y"]
    for i in range(40):
        a, b = -999 if i in (3, 5) else i, 1e4 if i == 7 else np.sin(i)
        lines.append(f"{a},{b},{int(i == 9)},{2 * np.cos(i * i)},{np.cos(i * i)}")
    remarks = read(tmp_path, [*lines, lines[2]]).remarks
    assert "'a' is -999 in 2 rows" in remarks[0] and "--na -999" in remarks[0]
    assert "'b' has a value far from all others, 10000 in line 9" in remarks[1]
    assert "'c' differs in one row only (line 11)" in remarks[2]
    assert "'d' and the target 'y' are almost the same" in remarks[3]
    assert "1 row is a copy of another one" in remarks[4] and len(remarks) == 5
