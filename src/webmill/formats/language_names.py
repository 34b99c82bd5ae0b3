"""English names of languages, for people: of those that CLD2 detects, and by the codes that pages state."""

from __future__ import annotations

from webmill.formats.cld2 import ISO_639_3

_NAMES = """
aar Afar; abk Abkhaz; afr Afrikaans; aka Akan; amh Amharic; ara Arabic; asm Assamese; aym Aymara; aze Azerbaijani;
bak Bashkir; bel Belarusian; ben Bengali; bih Bihari; bis Bislama; bod Tibetan; bos Bosnian; bre Breton; bug Buginese;
bul Bulgarian; cat Catalan; ceb Cebuano; ces Czech; chr Cherokee; cos Corsican; crs Seychellois Creole; cym Welsh;
dan Danish; deu German; div Dhivehi; dzo Dzongkha; ell Greek; eng English; epo Esperanto; est Estonian; eus Basque;
fao Faroese; fas Persian; fij Fijian; fin Finnish; fra French; fry Frisian; gla Scottish Gaelic; gle Irish;
glg Galician; glv Manx; got Gothic; grn Guarani; guj Gujarati; hat Haitian Creole; hau Hausa; haw Hawaiian;
heb Hebrew; hin Hindi;
hmn Hmong; hrv Croatian; hun Hungarian; hye Armenian; ibo Igbo; iku Inuktitut; ile Interlingue; ina Interlingua;
ind Indonesian; ipk Inupiaq; isl Icelandic; ita Italian; jav Javanese; jpn Japanese; kal Greenlandic; kan Kannada;
kas Kashmiri; kat Georgian; kaz Kazakh; kha Khasi; khm Khmer; kin Kinyarwanda; kir Kyrgyz; kor Korean; kur Kurdish;
lao Lao; lat Latin; lav Latvian; lif Limbu; lin Lingala; lit Lithuanian; ltz Luxembourgish; lug Ganda; mal Malayalam;
mar Marathi; mfe Mauritian Creole; mkd Macedonian; mlg Malagasy; mlt Maltese; mon Mongolian; mri Maori; msa Malay;
mya Burmese; nau Nauru; nbl Ndebele; nep Nepali; nld Dutch; nno Norwegian Nynorsk; nob Norwegian Bokmål; nor Norwegian;
nso Northern Sotho; nya Chichewa; oci Occitan; ori Odia; orm Oromo; pan Punjabi; pol Polish; por Portuguese; pus Pashto;
que Quechua; roh Romansh; ron Romanian; run Rundi; rus Russian; sag Sango; san Sanskrit; sco Scots; sin Sinhala;
slk Slovak; slv Slovenian; smo Samoan; sna Shona; snd Sindhi; som Somali; sot Sotho; spa Spanish; sqi Albanian;
srp Serbian; ssw Swati; sun Sundanese; swa Swahili; swe Swedish; syr Syriac; tam Tamil; tat Tatar; tel Telugu;
tgk Tajik; tgl Tagalog; tha Thai; tir Tigrinya; tlh Klingon; ton Tongan; tsn Tswana; tso Tsonga; tuk Turkmen;
tur Turkish; uig Uyghur; ukr Ukrainian; urd Urdu; uzb Uzbek; ven Venda; vie Vietnamese; vol Volapük; war Waray;
wol Wolof; xho Xhosa; yid Yiddish; yor Yoruba; zha Zhuang; zho Chinese; zul Zulu
"""
_OTHER_CODES = {"he": "heb", "jv": "jav", "nb": "nob", "ger": "deu", "fre": "fra", "dut": "nld", "chi": "zho"}
LANGUAGE_NAMES: dict[str, str] = {
    code: name for code, _, name in (entry.strip().partition(" ") for entry in _NAMES.split(";"))
}


def language_name(code: str) -> str:
    """Return the English name of a language code of two or three letters (`kor`, `ko-KR`); an unknown code as it is."""
    main = code.partition("-")[0].lower()
    return LANGUAGE_NAMES.get(_OTHER_CODES.get(main) or ISO_639_3.get(main, main), code)
