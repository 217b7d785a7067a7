/* entity.c - the characters that HTML 4 has names for, and numbers in the same form. */
#include "video/entity.h"

#include <stdlib.h>
#include <string.h>

#include "video/text.h"

typedef struct named {
    char name[9];
    uint16_t code;
} named;

/* HTML 4.01 section 24, and apos of XML; sorted by the bytes of the name. */
// clang-format off
static const named table[] = {
        {"AElig", 198}, {"Aacute", 193}, {"Acirc", 194}, {"Agrave", 192},
        {"Alpha", 913}, {"Aring", 197}, {"Atilde", 195}, {"Auml", 196}, {"Beta", 914},
        {"Ccedil", 199}, {"Chi", 935}, {"Dagger", 8225}, {"Delta", 916}, {"ETH", 208},
        {"Eacute", 201}, {"Ecirc", 202}, {"Egrave", 200}, {"Epsilon", 917},
        {"Eta", 919}, {"Euml", 203}, {"Gamma", 915}, {"Iacute", 205}, {"Icirc", 206},
        {"Igrave", 204}, {"Iota", 921}, {"Iuml", 207}, {"Kappa", 922}, {"Lambda", 923},
        {"Mu", 924}, {"Ntilde", 209}, {"Nu", 925}, {"OElig", 338}, {"Oacute", 211},
        {"Ocirc", 212}, {"Ograve", 210}, {"Omega", 937}, {"Omicron", 927},
        {"Oslash", 216}, {"Otilde", 213}, {"Ouml", 214}, {"Phi", 934}, {"Pi", 928},
        {"Prime", 8243}, {"Psi", 936}, {"Rho", 929}, {"Scaron", 352}, {"Sigma", 931},
        {"THORN", 222}, {"Tau", 932}, {"Theta", 920}, {"Uacute", 218}, {"Ucirc", 219},
        {"Ugrave", 217}, {"Upsilon", 933}, {"Uuml", 220}, {"Xi", 926}, {"Yacute", 221},
        {"Yuml", 376}, {"Zeta", 918}, {"aacute", 225}, {"acirc", 226}, {"acute", 180},
        {"aelig", 230}, {"agrave", 224}, {"alefsym", 8501}, {"alpha", 945},
        {"amp", 38}, {"and", 8743}, {"ang", 8736}, {"apos", 39}, {"aring", 229},
        {"asymp", 8776}, {"atilde", 227}, {"auml", 228}, {"bdquo", 8222},
        {"beta", 946}, {"brvbar", 166}, {"bull", 8226}, {"cap", 8745}, {"ccedil", 231},
        {"cedil", 184}, {"cent", 162}, {"chi", 967}, {"circ", 710}, {"clubs", 9827},
        {"cong", 8773}, {"copy", 169}, {"crarr", 8629}, {"cup", 8746}, {"curren", 164},
        {"dArr", 8659}, {"dagger", 8224}, {"darr", 8595}, {"deg", 176}, {"delta", 948},
        {"diams", 9830}, {"divide", 247}, {"eacute", 233}, {"ecirc", 234},
        {"egrave", 232}, {"empty", 8709}, {"emsp", 8195}, {"ensp", 8194},
        {"epsilon", 949}, {"equiv", 8801}, {"eta", 951}, {"eth", 240}, {"euml", 235},
        {"euro", 8364}, {"exist", 8707}, {"fnof", 402}, {"forall", 8704},
        {"frac12", 189}, {"frac14", 188}, {"frac34", 190}, {"frasl", 8260},
        {"gamma", 947}, {"ge", 8805}, {"gt", 62}, {"hArr", 8660}, {"harr", 8596},
        {"hearts", 9829}, {"hellip", 8230}, {"iacute", 237}, {"icirc", 238},
        {"iexcl", 161}, {"igrave", 236}, {"image", 8465}, {"infin", 8734},
        {"int", 8747}, {"iota", 953}, {"iquest", 191}, {"isin", 8712}, {"iuml", 239},
        {"kappa", 954}, {"lArr", 8656}, {"lambda", 955}, {"lang", 9001},
        {"laquo", 171}, {"larr", 8592}, {"lceil", 8968}, {"ldquo", 8220}, {"le", 8804},
        {"lfloor", 8970}, {"lowast", 8727}, {"loz", 9674}, {"lrm", 8206},
        {"lsaquo", 8249}, {"lsquo", 8216}, {"lt", 60}, {"macr", 175}, {"mdash", 8212},
        {"micro", 181}, {"middot", 183}, {"minus", 8722}, {"mu", 956}, {"nabla", 8711},
        {"nbsp", 160}, {"ndash", 8211}, {"ne", 8800}, {"ni", 8715}, {"not", 172},
        {"notin", 8713}, {"nsub", 8836}, {"ntilde", 241}, {"nu", 957}, {"oacute", 243},
        {"ocirc", 244}, {"oelig", 339}, {"ograve", 242}, {"oline", 8254},
        {"omega", 969}, {"omicron", 959}, {"oplus", 8853}, {"or", 8744}, {"ordf", 170},
        {"ordm", 186}, {"oslash", 248}, {"otilde", 245}, {"otimes", 8855},
        {"ouml", 246}, {"para", 182}, {"part", 8706}, {"permil", 8240}, {"perp", 8869},
        {"phi", 966}, {"pi", 960}, {"piv", 982}, {"plusmn", 177}, {"pound", 163},
        {"prime", 8242}, {"prod", 8719}, {"prop", 8733}, {"psi", 968}, {"quot", 34},
        {"rArr", 8658}, {"radic", 8730}, {"rang", 9002}, {"raquo", 187},
        {"rarr", 8594}, {"rceil", 8969}, {"rdquo", 8221}, {"real", 8476}, {"reg", 174},
        {"rfloor", 8971}, {"rho", 961}, {"rlm", 8207}, {"rsaquo", 8250},
        {"rsquo", 8217}, {"sbquo", 8218}, {"scaron", 353}, {"sdot", 8901},
        {"sect", 167}, {"shy", 173}, {"sigma", 963}, {"sigmaf", 962}, {"sim", 8764},
        {"spades", 9824}, {"sub", 8834}, {"sube", 8838}, {"sum", 8721}, {"sup", 8835},
        {"sup1", 185}, {"sup2", 178}, {"sup3", 179}, {"supe", 8839}, {"szlig", 223},
        {"tau", 964}, {"there4", 8756}, {"theta", 952}, {"thetasym", 977},
        {"thinsp", 8201}, {"thorn", 254}, {"tilde", 732}, {"times", 215},
        {"trade", 8482}, {"uArr", 8657}, {"uacute", 250}, {"uarr", 8593},
        {"ucirc", 251}, {"ugrave", 249}, {"uml", 168}, {"upsih", 978},
        {"upsilon", 965}, {"uuml", 252}, {"weierp", 8472}, {"xi", 958},
        {"yacute", 253}, {"yen", 165}, {"yuml", 255}, {"zeta", 950}, {"zwj", 8205},
        {"zwnj", 8204},
};
// clang-format on

static const size_t n_named = sizeof table / sizeof table[0];

/* What &#128; to &#159; mean: the numbers are read as Windows-1252, as HTML 5 does
 * (section 13.2.5.80); the five that have no character there stay as they are. */
static const uint16_t windows_1252[32] = {0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026,
        0x2020, 0x2021, 0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D, 0x017D, 0x8F,
        0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x02DC, 0x2122,
        0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178};

static int
digit_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* "#65;" or "#x41;" without the ampersand. */
static size_t
read_number(const char *text, size_t n_byte, uint32_t *code)
{
    const bool is_hex = n_byte > 1 && (text[1] == 'x' || text[1] == 'X');
    const int base = is_hex ? 16 : 10;
    const size_t first = is_hex ? 2 : 1;
    uint32_t number = 0;
    size_t i = first;

    while (i < n_byte && digit_value(text[i]) < base) {
        number = number * (uint32_t)base + (uint32_t)digit_value(text[i]);
        number = number < 0x110000 ? number : 0x110000; /* and no further */
        i++;
    }
    if (i == first || i == n_byte || text[i] != ';') {
        return 0;
    }
    if (number >= 0x80 && number < 0xA0) {
        number = windows_1252[number - 0x80];
    }
    *code = number == 0 || number > 0x10FFFF || (number >= 0xD800 && number < 0xE000)
                    ? PF_REPLACEMENT
                    : number;
    return i + 1;
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

size_t
pf_entity_read(const char *text, size_t n_byte, uint32_t *code)
{
    named wanted = {{0}, 0};
    const named *found;
    size_t n = 1;

    if (n_byte < 3 || text[0] != '&') {
        return 0;
    }
    if (text[1] == '#') {
        n = read_number(text + 1, n_byte - 1, code);
        return n > 0 ? n + 1 : 0;
    }
    while (n < n_byte && text[n] != ';') {
        if (n > 8) {
            return 0; /* longer than any name */
        }
        wanted.name[n - 1] = text[n];
        n++;
    }
    if (n == n_byte) {
        return 0;
    }
    found = bsearch(&wanted, table, n_named, sizeof table[0], compare_names);
    if (found == NULL) {
        return 0;
    }
    *code = found->code;
    return n + 1;
}
