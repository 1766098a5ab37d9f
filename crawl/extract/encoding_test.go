package extract

import (
	"strings"
	"testing"
)

// encodingCases follow "determining the character encoding" of the HTML Standard and the labels of
// the Encoding Standard; each was written from their text. A case has a body, the value of its
// Content-Type header, and the encoding as the standard names it.
var encodingCases = []struct {
	group string
	cases []struct{ contentType, body, want string }
}{
	{"byte order marks", []struct{ contentType, body, want string }{
		{"text/html", "\xef\xbb\xbf<p>", "utf-8"},
		{"text/html", "\xff\xfe<\x00p\x00>\x00", "utf-16le"},
		{"text/html", "\xfe\xff\x00<\x00p\x00>", "utf-16be"},
		{"text/html; charset=koi8-r", "\xef\xbb\xbf<p>", "utf-8"},
		{"text/html; charset=koi8-r", "\xff\xfe<\x00p\x00>\x00", "utf-16le"},
		{"text/html", "\xef\xbb\xbf<meta charset=koi8-r>", "utf-8"},
		{"text/html", "\xef\xbb<meta charset=koi8-r>", "koi8-r"},
		{"text/html", " \xef\xbb\xbf<meta charset=koi8-r>", "koi8-r"},
	}},
	{"the header", []struct{ contentType, body, want string }{
		{"text/html; charset=koi8-r", "<p>", "koi8-r"},
		{"text/html;charset=koi8-r", "<meta charset=utf-8>", "koi8-r"},
		{`text/html; charset="koi8-r"`, "<p>", "koi8-r"},
		{"TEXT/HTML; CHARSET=KOI8-R", "<p>", "koi8-r"},
		{"text/html; level=1; charset=koi8-r", "<p>", "koi8-r"},
		{"text/html; charset=nonsense", "<meta charset=koi8-r>", "koi8-r"},
		{"text/html; charset=", "<meta charset=koi8-r>", "koi8-r"},
		{"text/html; charset=utf-16", "<p>", "utf-16le"},
	}},
	{"the default", []struct{ contentType, body, want string }{
		{"text/html", "", "windows-1252"},
		{"", "<p>\xe9", "windows-1252"},
		{"text/html", "<p>\xc3\xa9", "windows-1252"},
	}},
	{"meta elements", []struct{ contentType, body, want string }{
		{"text/html", "<meta charset=koi8-r>", "koi8-r"},
		{"text/html", `<meta charset="koi8-r">`, "koi8-r"},
		{"text/html", "<meta charset='koi8-r'/>", "koi8-r"},
		{"text/html", "<META CHARSET=KOI8-R>", "koi8-r"},
		{"text/html", "<meta\ncharset\t=\fkoi8-r >", "koi8-r"},
		{"text/html", "<meta/charset=koi8-r>", "koi8-r"},
		{"text/html", `<meta charset=" koi8-r ">`, "koi8-r"},
		{"text/html", "<meta name=x charset=koi8-r>", "koi8-r"},
		{"text/html", "<meta charset=koi8-r charset=utf-8>", "koi8-r"},
		{"text/html", "<meta charset=nonsense><meta charset=koi8-r>", "koi8-r"},
		{"text/html", "<meta charset><meta charset=koi8-r>", "koi8-r"},
		{"text/html", "<meta charset=koi8-r><meta charset=utf-8>", "koi8-r"},
		{"text/html", "<meta charset=iso-2022-jp><p>\x1b$B%=<'\x1b(B", "iso-2022-jp"},
		{"text/html", "<meta charset=utf-16>", "utf-8"},
		{"text/html", "<meta charset=utf-16be>", "utf-8"},
		{"text/html", "<meta charset=x-user-defined>", "windows-1252"},
		{"text/html", "<p><div><meta charset=koi8-r>", "koi8-r"},
		{"text/html", "<metacharset=koi8-r>", "windows-1252"},
		{"text/html", "</meta charset=koi8-r>", "windows-1252"},
		{"text/html", "<meta charset=koi8-r", "windows-1252"},
		{"text/html", "<mett charset=koi8-r>", "windows-1252"},
	}},
	{"meta elements with content", []struct{ contentType, body, want string }{
		{"text/html", `<meta http-equiv=content-type content="text/html; charset=koi8-r">`, "koi8-r"},
		{"text/html", `<meta content="text/html; charset=koi8-r" http-equiv="Content-Type">`, "koi8-r"},
		{"text/html", `<meta http-equiv=content-type content="charset=koi8-r">`, "koi8-r"},
		{"text/html", `<meta http-equiv=content-type content="text/html; charset = koi8-r ; x">`, "koi8-r"},
		{"text/html", `<meta http-equiv=content-type content='text/html; charset="koi8-r"'>`, "koi8-r"},
		{"text/html", `<meta http-equiv=content-type content="text/html; charset='koi8-r'">`, "koi8-r"},
		{"text/html", `<meta http-equiv=content-type content="charset; charset=koi8-r">`, "koi8-r"},
		{"text/html", `<meta http-equiv=content-type content="xcharset=koi8-r">`, "koi8-r"},
		{"text/html", `<meta http-equiv=content-type content='charset="koi8-r'>`, "windows-1252"},
		{"text/html", `<meta http-equiv=content-type content="text/html; charset=">`, "windows-1252"},
		{"text/html", `<meta content="text/html; charset=koi8-r">`, "windows-1252"},
		{"text/html", `<meta http-equiv=refresh content="0; charset=koi8-r">`, "windows-1252"},
		{"text/html", `<meta charset=koi8-r http-equiv=content-type content="text/html; charset=utf-8">`, "koi8-r"},
		{"text/html", `<meta charset=nonsense http-equiv=content-type content="text/html; charset=koi8-r">`, "windows-1252"},
		{"text/html", `<meta http-equiv=content-type content="text/html; charset=utf-16">`, "utf-8"},
	}},
	{"what hides a meta element", []struct{ contentType, body, want string }{
		{"text/html", "<!-- <meta charset=koi8-r> -->", "windows-1252"},
		{"text/html", "<!-- <meta charset=koi8-r>", "windows-1252"},
		{"text/html", "<!--><meta charset=koi8-r>", "koi8-r"},
		{"text/html", "<!-- -- > --><meta charset=koi8-r>", "koi8-r"},
		{"text/html", "<!doctype html><meta charset=koi8-r>", "koi8-r"},
		{"text/html", "<!x <meta charset=koi8-r>", "windows-1252"},
		{"text/html", "<?x <meta charset=koi8-r>", "windows-1252"},
		{"text/html", "</ <meta charset=koi8-r>", "windows-1252"},
		{"text/html", `<p title="<meta charset=koi8-r>">`, "windows-1252"},
		{"text/html", `<p title='"><meta charset=koi8-r>'>`, "windows-1252"},
		{"text/html", `<p title=<meta charset=koi8-r>`, "windows-1252"},
		{"text/html", "< p <meta charset=koi8-r>", "koi8-r"},
		{"text/html", "<1 <meta charset=koi8-r>", "koi8-r"},
		{"text/html", `<script>"<meta charset=koi8-r>"</script>`, "windows-1252"}, // the standard's prescan ignores scripts
		{"text/html", "<title><meta charset=koi8-r></title>", "windows-1252"},
	}},
	{"meta elements that come late", []struct{ contentType, body, want string }{
		{"text/html", strings.Repeat(" ", 1000) + "<meta charset=koi8-r>", "koi8-r"},
		{"text/html", strings.Repeat(" ", 5000) + "<meta charset=koi8-r>", "koi8-r"},
		{"text/html", strings.Repeat(" ", 5000) + "<!-- <meta charset=koi8-r> -->", "windows-1252"},
		{"text/html", strings.Repeat(" ", 5000) + "<title><meta charset=koi8-r></title>", "windows-1252"},
		{"text/html", "<meta charset=utf-8>" + strings.Repeat(" ", 5000) + "<meta charset=koi8-r>", "utf-8"},
		{"text/html; charset=utf-8", strings.Repeat(" ", 5000) + "<meta charset=koi8-r>", "utf-8"},
	}},
	{"XML declarations in HTML", []struct{ contentType, body, want string }{
		{"text/html", `<?xml version="1.0" encoding="koi8-r"?><html>`, "koi8-r"},
		{"text/html", `<?xml version='1.0' encoding = 'koi8-r' ?><html>`, "koi8-r"},
		{"text/html", `<?xml version="1.0" encoding="utf-16"?><html>`, "utf-8"},
		{"text/html", `<?xml version="1.0" encoding="koi8-r"?><meta charset=utf-8>`, "utf-8"},
		{"text/html", `<?xml version="1.0" encoding="koi8-r"?>` + strings.Repeat(" ", 5000) + "<meta charset=utf-8>", "utf-8"},
		{"text/html; charset=utf-8", `<?xml version="1.0" encoding="koi8-r"?><html>`, "utf-8"},
		{"text/html", ` <?xml version="1.0" encoding="koi8-r"?><html>`, "windows-1252"},
		{"text/html", `<?xml version="1.0"?><html encoding="koi8-r">`, "windows-1252"},
		{"text/html", `<?xml version="1.0" encoding=koi8-r?><html>`, "windows-1252"},
		{"text/html", `<?xml version="1.0" encoding "koi8-r"?><html>`, "windows-1252"},
		{"text/html", `<?xml version="1.0" encoding=" koi8-r"?><html>`, "windows-1252"},
		{"text/html", `<?xml version="1.0" encoding="koi8-r`, "windows-1252"},
		{"text/html", "<\x00?\x00x\x00m\x00l\x00>\x00", "utf-16le"},
		{"text/html", "\x00<\x00?\x00x\x00m\x00l\x00>", "utf-16be"},
	}},
	{"XHTML", []struct{ contentType, body, want string }{
		{"application/xhtml+xml", "<html/>", "utf-8"},
		{"application/xhtml+xml; charset=koi8-r", "<html/>", "koi8-r"},
		{"application/xhtml+xml", `<?xml version="1.0" encoding="koi8-r"?><html/>`, "koi8-r"},
		{"application/xhtml+xml", `<meta charset="koi8-r"/>`, "utf-8"},
		{"application/xhtml+xml", "\xfe\xff\x00<\x00p\x00>", "utf-16be"},
		{"application/xhtml+xml", "<\x00?\x00x\x00m\x00l\x00>\x00", "utf-16le"},
	}},
	{"labels", []struct{ contentType, body, want string }{
		{"", "<meta charset=utf8>", "utf-8"},
		{"", "<meta charset=unicode-1-1-utf-8>", "utf-8"},
		{"", "<meta charset=ascii>", "windows-1252"},
		{"", "<meta charset=iso-8859-1>", "windows-1252"},
		{"", "<meta charset=latin1>", "windows-1252"},
		{"", "<meta charset=latin2>", "iso-8859-2"},
		{"", "<meta charset=iso8859-5>", "iso-8859-5"},
		{"", "<meta charset=cyrillic>", "iso-8859-5"},
		{"", "<meta charset=greek>", "iso-8859-7"},
		{"", "<meta charset=iso-8859-9>", "windows-1254"},
		{"", "<meta charset=iso-8859-11>", "windows-874"},
		{"", "<meta charset=tis-620>", "windows-874"},
		{"", "<meta charset=cp1251>", "windows-1251"},
		{"", "<meta charset=koi8-ru>", "koi8-u"},
		{"", "<meta charset=mac>", "macintosh"},
		{"", "<meta charset=x-mac-ukrainian>", "x-mac-cyrillic"},
		{"", "<meta charset=gb2312>", "gbk"},
		{"", "<meta charset=gb18030>", "gb18030"},
		{"", "<meta charset=big5-hkscs>", "big5"},
		{"", "<meta charset=x-sjis>", "shift_jis"},
		{"", "<meta charset=ms932>", "shift_jis"},
		{"", "<meta charset=x-euc-jp>", "euc-jp"},
		{"", "<meta charset=ks_c_5601-1987>", "euc-kr"},
		{"", "<meta charset=hz-gb-2312>", "replacement"},
		{"", "<meta charset=iso-2022-kr>", "replacement"},
		{"", "<meta charset=utf-7>", "windows-1252"},
	}},
}

func TestEncoding(t *testing.T) {
	var x Extractor
	var page Page
	for _, g := range encodingCases {
		for _, tc := range g.cases {
			if err := x.HTML(&page, site, tc.contentType, []byte(tc.body), Options{}); err != nil {
				t.Fatal(err)
			}
			if x.walk.charset.name != tc.want {
				t.Errorf("%s: %q, %.90q: %s, want %s", g.group, tc.contentType, tc.body, x.walk.charset.name, tc.want)
			}
		}
	}
}
