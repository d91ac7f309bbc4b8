"""The closed list of words and signs in brackets as people write them.

What is not listed here is not read. Words that mean different things to different people are not
listed: "mil" is a thousand or a million, "pounds" are money or a weight, "t" has five meanings.
"""

from __future__ import annotations

from typing import NamedTuple

# --- Words that join numbers ---------------------------------------------------------------------

# Each word or phrase by its role, which is one letter; the forms in `bracket_grammar` are patterns
# of these letters. Underscores stand for spaces.
ENGLISH = {
    "t": "to until till thru through",
    "f": "from",
    "w": "between",
    "&": "and but",
    "|": "or",
    "b": "under below less_than fewer_than lower_than smaller_than younger_than shorter_than",
    "k": "but_under but_below but_less_than and_less_than and_fewer_than",
    "c": "and_under and_below",
    ">": "over above more_than greater_than higher_than larger_than older_than longer_than",
    "g": "at_least no_less_than not_less_than no_fewer_than not_under",
    "m": "and_up_to at_most no_more_than not_more_than up_to_and_including not_over",
    "u": "up_to",
    "X": "max maximum",
    "I": "minimum",
    "+": (
        "plus upwards upward or_more or_over or_above or_higher or_older or_up or_later or_greater "
        "or_longer or_larger and_more and_over and_above and_higher and_older and_up and_upwards "
        "and_upward and_later and_greater and_longer or_upwards"
    ),
    "n": (
        "or_less or_fewer or_under or_below or_lower or_younger or_earlier or_smaller or_shorter "
        "and_less and_fewer and_lower and_younger and_earlier and_smaller and_shorter"
    ),
    "a": "age ages aged",
}
GERMAN = {
    "d": "von",
    "w": "zwischen",
    "&": "und",
    "|": "oder",
    "b": "unter weniger_als jünger_als juenger_als kleiner_als",
    ">": "über ueber mehr_als älter_als aelter_als größer_als",
    "g": "ab mindestens",
    "m": "höchstens hoechstens maximal",
    "u": "bis bis_zu",
    "+": "und_mehr und_älter und_aelter und_darüber und_höher oder_mehr oder_älter oder_aelter",
    "n": "und_weniger und_jünger und_juenger oder_weniger oder_jünger oder_juenger",
}
FRENCH = {
    "d": "de",
    "w": "entre",
    "t": "à",
    "&": "et",
    "|": "ou",
    "b": "moins_de inférieur_à",
    ">": "plus_de supérieur_à",
    "g": "au_moins à_partir_de",
    "m": "au_plus",
    "u": "jusqu'à jusqu'a",
    "+": "et_plus ou_plus et_davantage",
    "n": "et_moins ou_moins",
}
SPANISH = {
    "f": "desde",
    "t": "a",
    "&": "y",
    "|": "o",
    "b": "menos_de menor_de menores_de",
    ">": "más_de mas_de mayor_de mayores_de",
    "g": "al_menos a_partir_de como_mínimo como_minimo",
    "m": "como_máximo como_maximo",
    "u": "hasta",
    "+": "o_más o_mas y_más y_mas",
    "n": "o_menos y_menos",
}
SIGNS = {
    "<": "<",
    ">": ">",
    "<=": "m",
    "=<": "m",
    "\u2264": "m",
    ">=": "g",
    "=>": "g",
    "\u2265": "g",
    "..": "t",
    "...": "t",
    "\u2026": "t",
}

# --- Magnitudes ----------------------------------------------------------------------------------

MAGNITUDES = {
    2: "hundred hundreds",
    3: "k thousand thousands tsd tsd. tausend mille",
    5: "lakh lakhs lac lacs",
    6: "million millions mn mln mio mio. millionen millón millones",
    7: "crore crores",
    9: "b bn billion billions mrd mrd. milliarde milliarden milliard milliards",
    12: "tn trn trillion trillions",
}
LONG_SCALE = ("billion", "billions", "trillion", "trillions")  # other numbers outside English
FOREIGN_MAGNITUDES = (
    "tsd tsd. tausend mille mio mio. millionen millón millones mrd mrd. milliarde milliarden "
    "milliard milliards"
)

# --- Units ---------------------------------------------------------------------------------------

CURRENCIES = {
    "usd": "$ us$ usd dollar dollars us_dollar us_dollars",
    "eur": "\u20ac eur euro euros",
    "gbp": "\u00a3 gbp pounds_sterling",
    "jpy": "\u00a5 jpy yen",
    "cny": "cny rmb yuan",
    "inr": "\u20b9 inr rs rs. rupee rupees",
    "chf": "chf sfr franken",
    "pln": "pln z\u0142 zloty z\u0142oty",
    "czk": "czk k\u010d",
    "rub": "\u20bd rub rubles roubles",
    "try": "\u20ba try",
    "krw": "\u20a9 krw won",
    "ils": "\u20aa ils",
    "uah": "\u20b4 uah",
    "vnd": "\u20ab vnd",
    "thb": "\u0e3f thb baht",
    "ngn": "\u20a6 ngn naira",
    "brl": "r$ brl reais",
    "aud": "a$ au$ aud",
    "cad": "c$ ca$ cad",
    "nzd": "nz$ nzd",
    "hkd": "hk$ hkd",
    "sgd": "s$ sgd",
    "mxn": "mx$ mxn",
    "kr": "kr kr.",
    "cent": "\u00a2 cent cents ct cts",
    "pence": "pence",
    **{code: code for code in ("aed", "dkk", "huf", "nok", "ron", "sar", "sek", "zar")},
}
LENGTHS = {
    "metre": "metre metres meter meters m\u00e8tre m\u00e8tres metro metros",
    "km": "km kms kilometre kilometres kilometer kilometers kilom\u00e8tre kilom\u00e8tres",
    "cm": "cm centimetre centimetres centimeter centimeters",
    "mm": "mm millimetre millimetres millimeter millimeters",
    "mile": "mile miles mi",
    "foot": "ft feet foot",
    "inch": "inch inches",
    "yard": "yard yards yd yds",
}
AREAS = {
    "m\u00b2": "m\u00b2 m2 sqm qm square_metre square_metres square_meter square_meters",
    "km\u00b2": "km\u00b2 km2",
    "m\u00b3": "m\u00b3 m3 cubic_metre cubic_metres cubic_meter cubic_meters",
    "sq ft": "sqft sq_ft ft\u00b2 ft2 square_foot square_feet",
    "m/s": "m/s",
}
TIMES = {
    "year": (
        "year years yr yrs yr. yrs. year_old years_old yr_old yrs_old year_of_age years_of_age "
        "jahr jahre jahren jahre_alt an ans ann\u00e9e ann\u00e9es a\u00f1o a\u00f1os"
    ),
    "month": "month months mos monat monate monaten mois mes meses",
    "week": "week weeks wk wks woche wochen semaine semaines semana semanas",
    "day": "day days tag tage tagen jour jours d\u00eda d\u00edas",
    "hour": "hour hours hr hrs h std std. stunde stunden heure heures hora horas",
    "minute": "minute minutes mins minuten minuto minutos",
    "second": "second seconds sec secs sekunde sekunden seconde secondes segundo segundos",
    "ms": "ms millisecond milliseconds",
}
OTHERS = {
    "percent": "% percent per_cent pct prozent pour_cent por_ciento",
    "hectare": "ha hectare hectares",
    "acre": "acre acres",
    "kg": "kg kgs kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes",
    "g": "g gram grams gramm gramme grammes",
    "mg": "mg milligram milligrams",
    "lb": "lb lbs",
    "oz": "oz ounce ounces",
    "litre": "l litre litres liter liters",
    "ml": "ml millilitre millilitres milliliter milliliters",
    "km/h": "km/h kph kmh",
    "mph": "mph",
    "\u00b0c": "\u00b0c",
    "\u00b0f": "\u00b0f",
    "kwh": "kwh",
    "mg/dl": "mg/dl",
    "mmhg": "mmhg",
    "bpm": "bpm",
    "kg/m\u00b2": "kg/m\u00b2 kg/m2",
    "person": "person persons people personen personne personnes persona personas",
    "child": "child children kid kids kind kinder enfant enfants hijo hijos",
    "employee": "employee employees staff mitarbeiter besch\u00e4ftigte salari\u00e9s empleados",
    "time": "time times mal fois vez veces",
    "class": "class classes",
    "glass": "glass glasses",
}
COUNTED = (  # each with its plural in s
    "animal bed book call car cigarette coffee course cup customer drink email error event exam "
    "friend game hospital house household item job kilocalorie lesson letter meal meeting member "
    "message night order page pack patient pet point product purchase question room row score seat "
    "star step student trip unit user vehicle visit vote word worker"
)
FOREIGN_UNITS = (  # that tell the language of a column
    "jahr jahre jahren ans ann\u00e9e ann\u00e9es a\u00f1o a\u00f1os monat monate monaten mois "
    "meses woche wochen semaine semaines semana semanas tag tage tagen jour jours d\u00eda "
    "d\u00edas stunde stunden heure heures hora horas prozent pour_cent por_ciento personen "
    "personne personnes personas kinder enfants hijos fois veces"
)
RATES = {
    "year": (
        "per_year a_year each_year /year /yr per_annum p.a. yearly annually pro_jahr par_an "
        "al_a\u00f1o"
    ),
    "month": "per_month a_month each_month /month /mo monthly pro_monat par_mois al_mes",
    "week": "per_week a_week each_week /week /wk weekly pro_woche par_semaine a_la_semana",
    "day": "per_day a_day each_day /day daily pro_tag par_jour al_d\u00eda",
    "hour": "per_hour an_hour each_hour /hour /hr /h hourly pro_stunde par_heure",
    "person": "per_person per_capita pro_person par_personne por_persona",
    "m\u00b2": "/m\u00b2 /m2 per_m\u00b2 per_sqm",
}
METRE = "metre"
MINUTE = "minute"

# --- No answer -----------------------------------------------------------------------------------

NO_ANSWER = (
    "",
    "-",
    "don't know",
    "dont know",
    "do not know",
    "i don't know",
    "dk",
    "n/a",
    "na",
    "nan",
    "no answer",
    "no response",
    "not applicable",
    "not available",
    "not sure",
    "not stated",
    "prefer not to answer",
    "prefer not to say",
    "refused",
    "unknown",
    "unsure",
    "keine angabe",
    "k.a.",
    "k. a.",
    "wei\u00df nicht",
    "weiss nicht",
    "sans r\u00e9ponse",
    "ne sait pas",
    "ne se prononce pas",
    "no contesta",
    "no sabe",
    "no sabe / no contesta",
    "ns/nc",
    "prefiero no contestar",
    "prefiero no decirlo",
)


class Word(NamedTuple):
    """What a word or a sign may be in a text."""

    kind: str  # "role", "magnitude", "unit", "rate", or "letter": m and min, which are unclear
    value: str  # the role, the power of ten, the unit
    foreign: bool = False  # German, French or Spanish


def _listed() -> dict[str, Word]:
    known: dict[str, Word] = {}

    def add(kind: str, groups: dict[str, str], foreign: str | bool = "") -> None:
        for value, words in groups.items():
            for word in words.split():
                other = foreign if isinstance(foreign, bool) else word in foreign.split()
                known.setdefault(word.replace("_", " "), Word(kind, value, other))

    add("role", ENGLISH)
    for language in (GERMAN, FRENCH, SPANISH):
        add("role", language, foreign=True)
    powers = {str(power): words for power, words in MAGNITUDES.items()}
    add("magnitude", powers, FOREIGN_MAGNITUDES)
    counted = {name: f"{name} {name}s" for name in COUNTED.split()}
    for units in (CURRENCIES, LENGTHS, AREAS, TIMES, OTHERS, counted):
        add("unit", units, FOREIGN_UNITS)
    add("rate", RATES)
    add("letter", {"m": "m", "min": "min min."})
    prefixes = {"k": "3", "m": "6", "mn": "6", "mio": "6", "bn": "9", "mrd": "9", "tsd": "3"}
    for prefix, power in prefixes.items():  # kEUR
        for code in CURRENCIES:
            if len(code) == len("eur"):
                known.setdefault(prefix + code, Word("magnitude", f"{power} {code}"))
    return known


WORDS = _listed()
