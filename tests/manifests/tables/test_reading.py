"""Files as people have them: other separators, decimal commas, compressed, in another encoding, from a spreadsheet."""

import datetime
import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from evenfold.manifests import decide, read_table, source_of
from evenfold.manifests.tables.source import CsvFile
from evenfold.splitters import SplitError

COMMAS = "id,cost,ward\n1,180.65,Süd\n2,12.5,Nord\n3,7.25,Süd\n"
SEMICOLONS = "id;cost;ward\n1;180,65;Süd\n2;12,5;Nord\n3;7,25;Süd\n"


def written(folder: Path, name: str, text: str, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode(encoding)) if name.lower().endswith(".gz") else text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.csv", COMMAS),
        ("semicolons.csv", SEMICOLONS),
        ("tabs.tsv", COMMAS.replace(",", "\t")),
        ("bars.csv", COMMAS.replace(",", "|")),
        ("packed.csv.gz", COMMAS),
        ("quoted.csv", COMMAS.replace("Süd", '"Süd"').replace("ward", '"ward"')),
        ("marked_and_quoted.csv", "\ufeff" + COMMAS.replace("id", '"id"')),
        ("of_windows.csv", COMMAS.replace("\n", "\r\n")),
        ("empty_lines.csv", "\n" + COMMAS.replace("\n2", "\n\n2") + "\n\n"),
    ],
)
def test_the_same_rows_come_out_of_every_dialect(name: str, text: str, tmp_path: Path) -> None:
    """The header line says the separator; whole fields such as 180,65 say the decimal comma; gz is unpacked."""
    path = written(tmp_path, name, text)
    assert read_table(path).equals(read_table(written(tmp_path, "known.csv", COMMAS)))
    assert source_of(path).names == ["id", "cost", "ward"]


def test_a_comma_beside_a_point_is_no_decimal_mark(tmp_path: Path) -> None:
    """Of 180,65 and 180.65 in one file nobody can say which is which; neither is taken for a number."""
    mixed = written(tmp_path, "mixed.csv", SEMICOLONS + "4;180.65;Süd\n")
    assert CsvFile(mixed, {}).dialect == (";", ".", False)
    assert CsvFile(written(tmp_path, "commas.csv", SEMICOLONS), {}).dialect == (";", ",", False)


def test_days_with_points_are_times_and_versions_are_not(tmp_path: Path) -> None:
    day = written(tmp_path, "day.csv", "id;on;at\n1;02.07.2016;31.12.2016 9:30\n2;31.12.2016;02.07.2016 10:00\n")
    table = read_table(day)
    assert table["on"].cast("date32").to_pylist() == [datetime.date(2016, 7, 2), datetime.date(2016, 12, 31)]
    assert table["at"][0].as_py() == datetime.datetime(2016, 12, 31, 9, 30)
    versions = written(tmp_path, "version.csv", "id,on\n1,1.2.3\n2,2.10.4\n")
    assert read_table(versions)["on"].to_pylist() == ["1.2.3", "2.10.4"]


def test_a_single_column_and_commas_inside_quotes_are_left_alone(tmp_path: Path) -> None:
    assert read_table(written(tmp_path, "one.csv", "id\n1\n2\n")).column_names == ["id"]
    quoted = written(tmp_path, "quoted.csv", 'id,"name; first, last"\n1,"a; b, c"\n2,"d; e, f"\n')
    assert read_table(quoted).to_pydict() == {"id": [1, 2], "name; first, last": ["a; b, c", "d; e, f"]}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            lambda f: f.assign(key=pd.Series([f"{i}\ud800" for i in range(len(f))], dtype=object)),
            "column 'key' holds text that is no Unicode, half of a pair of surrogates; correct it",
        ),
        (lambda f: pd.concat([f, f[["x"]]], axis=1), "2 columns are called 'x'; give each a name of its own"),
        (lambda f: SimpleNamespace(collect=f.copy, columns=0), r"Namespace is not a table; pass its \.collect\(\)"),
    ],
)
def test_a_frame_that_cannot_be_read_is_answered_in_a_sentence(made: Any, message: str) -> None:
    with pytest.raises(SplitError, match=message):
        decide({"strategy": "KFold", "columns": {"key": "key"}}, made(pd.DataFrame({"key": range(20), "x": range(20)})))


def test_a_lazy_frame_and_a_relation_are_read_wherever_a_table_is() -> None:
    frame = pd.DataFrame({"key": range(20), "x": range(20)})
    spec = {"strategy": "KFold", "columns": {"key": "key"}}
    manifest = decide(spec, frame)
    stored = pl.from_pandas(frame.assign(__index_level_0__=range(20)))  # as a shuffled frame of pandas' is written
    for lazy in (stored.lazy(), duckdb.from_arrow(stored.to_arrow())):
        assert read_table(lazy, ["x"]).equals(read_table(frame, ["x"]))
        assert source_of(lazy).names == ["key", "x"]
        assert decide(spec, lazy).split_id == manifest.split_id
        assert manifest.fold_of(lazy).tolist() == manifest.fold_of(frame).tolist()
    many = pl.DataFrame({"key": [*range(200_003)] * 2, "x": 1})
    for grouped in (many.lazy().group_by("key").agg(pl.col("x").sum() + pl.col("key").max()),
                    duckdb.from_arrow(many.to_arrow()).aggregate("key, sum(x) + key as x", "key")):  # fmt: skip
        source = source_of(grouped)  # whose rows have an order of their own in each read
        x, key = (source.table([name])[name].cast("int64") for name in ("x", "key"))
        assert pc.subtract(x, key).unique().to_pylist() == [2]


def test_a_key_is_of_the_manifests_type_wherever_its_rows_are_looked_up(tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": [f"{i:02d}" for i in range(30)], "day": [datetime.date(2024, 1, 1)] * 30})
    manifest = decide({"strategy": "KFold", "columns": {"key": "id"}}, rows)
    assert manifest.fold_of(written(tmp_path, "rows.csv", rows.to_csv(index=False))).tolist() == manifest.codes.tolist()
    rows["day"] = rows["day"].astype(object).where(rows.index > 0, datetime.datetime(2024, 1, 1, 5, 30))
    with pytest.raises(SplitError, match="column 'day' holds values that Arrow has no one type for"):
        read_table(rows.iloc[::-1], ["day"])


WORDS = ["NA", "null", "nan", "N/A", "NULL", "None"]


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_text_that_is_declared_misses_only_what_is_empty(engine: Any, tmp_path: Path) -> None:
    rows = pd.DataFrame(
        {"id": WORDS + [f"row {i}" for i in range(60)], "y": range(66), "g": [*WORDS, *"abcdef"] * 5 + WORDS}
    )
    path = written(tmp_path, "rows.csv", rows.to_csv(index=False))
    spec = {"columns": {"key": "id", "group": "g", "target": "y"}, "types": {"id": "text", "g": "text"}}
    assert decide(spec, path, engine=engine, to=tmp_path / "splits").split_id == decide(spec, rows).split_id
    odd = written(tmp_path, "odd.csv", 'id,y,t\nNA,NA,NA\n"",1,x\n')
    table = read_table(odd, types={"id": "text"})
    assert table.to_pylist() == [{"id": "NA", "y": None, "t": None}, {"id": None, "y": 1, "t": "x"}]
    with pytest.raises(SplitError, match=r"'id' is missing .* in 1 of 2 rows"):
        decide({"columns": {"key": "id"}, "types": {"id": "text"}}, odd, engine=engine, to=tmp_path / "splits")


def test_a_line_break_within_quotes_is_within_a_value_wherever_a_block_of_the_file_ends(tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": [f"{i}\n{'x' * 2_000}" for i in range(600)], "n\nm": range(600)})
    path = written(tmp_path, "rows.csv", rows.to_csv(index=False))
    assert path.stat().st_size > 1 << 20
    assert read_table(path)["id"].to_pylist() == rows["id"].tolist()
    assert source_of(path).names == list(rows)
    spec = {"columns": {"key": "id"}, "strategy": "KFold"}
    splits = [decide(spec, path, engine=engine, to=tmp_path / "splits") for engine in ("memory", "duckdb")]
    assert {split.split_id for split in splits} == {decide(spec, rows).split_id}
    last = written(tmp_path, "last.csv", rows[["n\nm", "id"]].to_csv(index=False))
    assert read_table(last)["id"].to_pylist() == rows["id"].tolist()


@pytest.mark.parametrize(("end", "engine", "name"), [("\n", "duckdb", "rows.csv"), ("", "memory", "rows.csv.gz")])
def test_a_quote_that_is_never_closed_swallows_no_rows_of_a_small_file(
    end: str, engine: Any, name: str, tmp_path: Path
) -> None:
    rows = [f"{i},x" for i in range(60)]
    path = written(tmp_path, name, "\n".join(["id,note", *rows[:40], '40,"never closed', *rows[41:]]) + end)
    with pytest.raises(SplitError, match="a quote that is opened and not closed where the value ends; close it"):
        decide({"columns": {"key": "id"}, "strategy": "KFold"}, path, engine=engine, to=tmp_path / "splits")
    path = written(tmp_path, name, "\n".join(["id,note", *rows[:40], '40,"closed', "in two lines", '"']) + end)
    made = decide({"columns": {"key": "id"}, "strategy": "KFold"}, path, engine=engine, to=tmp_path / "splits")
    assert made.n == 41


UNCLOSED = [
    'a,b\n1,"x\n2,""\n3,""\n',  # writers that put every text in quotes
    'a,b\n1,"x\n2,5""\n',
    'a,b\n1,"x\ny"z\n',
]


@pytest.mark.parametrize("text", UNCLOSED)
def test_a_quote_is_closed_by_one_of_its_own_whatever_columns_are_read(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, "rows.csv", text)
    for columns in ([], ["a"], None):
        with pytest.raises(SplitError, match="a quote that is opened and not closed where the value ends"):
            read_table(path) if columns is None else list(CsvFile(path, {}).batches(columns))


@pytest.mark.parametrize(
    ("before", "names"), [("\ufeff\r\n", "id,kind,,"), ("\n\n", '"the\nid",kind,"",""'), ("\r", "id,kind,,")]
)
def test_empty_lines_before_the_names_are_no_rows(before: str, names: str, tmp_path: Path) -> None:
    end = "\r\n" if "\r\n" in before else "\r" if before == "\r" else "\n"
    lines = [names, *(f"{row},{kind},," for row, kind in zip("abc", "xyx", strict=True))]
    path = written(tmp_path, "sheet.csv", before + "".join(line + end for line in lines))
    rows = [row for batch in CsvFile(path, {}).batches(["kind"]) for row in batch["kind"].to_pylist()]
    assert rows == ["x", "y", "x"]


@pytest.mark.parametrize(
    ("text", "encoding", "engine", "message"),
    [
        ("id,cost,ward", "utf-8", "memory", "holds no rows, a row of over 1 MB, or a quote that is never closed"),
        ('id,"cost\n1,2\n', "utf-8", "duckdb", "holds no rows, a row of over 1 MB, or a quote that is never closed"),
        (COMMAS, "utf-16", "memory", "is not UTF-8 (it is UTF-16); in a spreadsheet save it as 'CSV UTF-8', or c"),
    ],
)
def test_a_file_that_is_no_table_is_said_to_be_none_in_our_words(
    text: str, encoding: str, engine: Any, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "rows.csv", text, encoding)
    with pytest.raises(SplitError) as raised:
        decide({"columns": {"key": "id"}, "strategy": "KFold"}, path, engine=engine, to=tmp_path / "splits")
    assert str(raised.value).startswith(f"{path} {message}")


@pytest.mark.parametrize("inches", [['0;1,5;Rohr 5"'], ['0;1,5;Rohr 5"', 'Rohr 3";1,5;x', "0;1,5;x"]])
def test_inch_marks_within_a_value_open_no_quotes(inches: list[str], tmp_path: Path) -> None:
    rows = [*inches, *(f"{i};{i},25;Rohr" for i in range(1, 6_000))]
    path = written(tmp_path, "pipes.csv", "\n".join(["id;cost;ware, size, kind, use", *rows, ""]))
    assert read_table(path)["cost"].to_pylist() == [1.5] * len(inches) + [i + 0.25 for i in range(1, 6_000)]


def test_copies_and_logs_in_a_folder_are_no_rows(tmp_path: Path) -> None:
    for name in ("a.csv", ".ipynb_checkpoints/a-checkpoint.csv", "_log/a.csv", ".writing-7-b.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        written(tmp_path, name, COMMAS)
    assert read_table(str(tmp_path)).num_rows == 3


def test_a_column_that_a_file_holds_twice_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "twice.csv", "id,x,x\n1,2,3\n2,3,4\n3,4,5\n")
    for engine in ("memory", "duckdb", "auto"):
        with pytest.raises(SplitError, match="2 columns are called 'x'"):
            decide({"columns": {"key": "id", "target": "x"}}, path, engine=engine, to=tmp_path)
    assert decide({"columns": {"key": "id"}, "params": {"n_splits": 3}}, path).n == 3


def test_whole_numbers_beyond_64_bits_lose_no_digit(tmp_path: Path) -> None:
    names = [9007199254740993 + i for i in range(40)] + [18446744073709551999]
    lines = [f"{i},{name},{'NA' if i == 3 else i / 2}" for i, name in enumerate(names)]
    for number, part in enumerate((lines[:20], lines[20:])):
        written(tmp_path, f"{number}.csv", "\n".join(["row,id,x", *part, ""]))
    spec = {"columns": {"key": "id"}, "strategy": "KFold"}
    manifest = decide(spec, str(tmp_path / "*.csv"), engine="duckdb", to=tmp_path / "split")
    assert manifest.types["id"] == "text"
    table = read_table(tmp_path / "1.csv")
    assert table.column("id").to_pylist()[-1] == "18446744073709551999"
    assert pa.types.is_floating(table.column("x").type)
    assert manifest.plan_id == decide(spec, str(tmp_path / "*.csv")).plan_id


def test_intervals_and_mixed_values_hinder_no_column_beside_them(tmp_path: Path) -> None:
    x = np.linspace(0, 1, 40)
    frame = pd.DataFrame({"k": range(40), "bin": pd.cut(x, 4), "part": pd.arrays.IntervalArray(pd.cut(x, 4))})
    frame["mixed"] = [1, "a", None, 2.5] * 10
    for name, odd in (("half", "a\ud800"), ("long", 2**70)):
        frame[name] = pd.Series([odd] * 40, dtype=object)
    frame["sparse"] = pd.arrays.SparseArray(x)
    table = read_table(frame)
    assert decide({"strategy": "KFold"}, frame[["mixed"]], engine="memory").n == 40
    assert table.column("sparse").to_pylist() == x.tolist()
    assert table.column("bin").to_pylist()[0] == "(-0.001, 0.25]" == table.column("part").to_pylist()[0]
    assert table.column("bin").type.ordered
    assert table.column("mixed").to_pylist()[:4] == ["1", "a", None, "2.5"]
    assert [table.column(name)[0].as_py() for name in ("half", "long")] == ["a\\ud800", str(2**70)]
    frame["clocks"] = pd.Series(
        [None, *[pd.Timestamp(2024, 1, 1)] * 9, *[pd.Timestamp(2024, 1, 1, tz="UTC")] * 30], dtype=object
    )
    for name, kinds in (("mixed", "float, int and str"), ("clocks", "Timestamp and Timestamp with a zone")):
        several = rf"^column '{name}' holds values that Arrow has no one type for \({kinds}\); give it one"
        with pytest.raises(SplitError, match=several):
            read_table(frame, ["k", name])
        pq.write_table(read_table(frame), tmp_path / "frame.parquet")
        asked = {"key": "k", "group": name, "missing_group": "alone", "n_splits": 2, "data": tmp_path / "frame.parquet"}
        with pytest.raises(SplitError, match=several):
            decide(**asked)
        assert decide(**asked, types={name: "text"}).types[name] == "text"
