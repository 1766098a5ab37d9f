package text

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPlainText(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"white space", "<p> a \n\t b </p>", "a b"},
		{"inline elements", "<p>a<b>b</b> <i>c</i>d</p>", "ab cd"},
		{"blocks", "<div>a<div>b</div>c</div><div></div><div>d</div>", "a\nb\nc\nd"},
		{"paragraphs", "<h1>a</h1><p>b<p>c</p><div>d</div>", "a\n\nb\n\nc\n\nd"},
		{"lines", "a<br>b<br/><br>c<BR>", "a\nb\n\nc"},
		{"list", "<ul><li>a<li>b</ul>", "a\nb"},
		{"table", "<table><tr><th>a<th>b</tr>\n<tr><td>c</td> <td>d</td></tr></table>", "a\tb\nc\td"},
		{"preformatted", "x<pre>\n a\r\n  b\n</pre>y", "x\n a\n  b\ny"},
		{"references", "a &amp; b&lt;c&nbsp;d &eacute;&#x4e2d;&#128;", "a & b<c\u00a0d é中€"},
		{"not shown", "a<script>b<c</script><style>d</style><noscript>e</noscript><template><p>f<template></template>g</template><!-- h --><iframe>i</iframe>j", "aj"},
		{"script with a script in a comment", "a<script><!-- document.write('<script>x</script>') --></script>b", "ab"},
		{"title", "<title>a</title><body>b", "b"},
		{"signs", "a < b > c <3", "a < b > c <3"},
		{"no end", "a<p b='", "a"},
		{"attributes", `<p title="a > b">c</p>`, "c"},
		{"unknown elements", "<x-y>a</x-y> <foo>b", "a b"},
		{"upper case", "<P>a</P><SCRIPT>b</SCRIPT>", "a"},
		{"empty", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var x Extractor
			page, err := x.Page("text/html; charset=utf-8", []byte(tt.doc), false)
			if err != nil || page.Text != tt.want || page.Main != "" || page.Cut {
				t.Errorf("%+v, %v, want %q", page, err, tt.want)
			}
		})
	}
}

func TestPageOfTypes(t *testing.T) {
	for _, tt := range []struct{ name, contentType, body, title, text string }{
		{"plain text", "text/plain", "a <b>\n\n c &amp; d\n", "", "a <b>\n\n c &amp; d\n"},
		{"undeclared UTF-8", "text/plain", "é中", "", "é中"},
		{"default of browsers", "text/plain", "caf\xe9 \x80", "", "café €"},
		{"header", "text/html; charset=windows-1251", "<title>\xcf\xf0\xe8</title>\xe2\xe5\xf2", "При", "вет"},
		{"header before meta", "text/html; charset=utf-8", "<meta charset=windows-1251>é", "", "é"},
		{"meta", "text/html", "<meta http-equiv=content-type content='text/html; charset=shift_jis'><p>\x93\xfa\x96\x7b", "", "日本"},
		{"meta after a long script", "text/html", "<script>" + strings.Repeat("x", 5000) + "</script><meta charset=koi8-r><p>\xd0", "", "п"},
		{"byte order mark", "text/html; charset=windows-1252", "\xef\xbb\xbfé", "", "é"},
		{"UTF-16", "text/html; charset=utf-16le", "<\x00p\x00>\x00\xe9\x00", "", "é"},
		{"invalid UTF-8", "text/html; charset=utf-8", "a\xffb", "", "a\uFFFDb"},
		{"XHTML", "application/xhtml+xml", "<title>a</title><script src='x'/><p>é</p>", "a", "é"},
		{"no type", "", "<!doctype html><p>a", "", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var x Extractor
			page, err := x.Page(tt.contentType, []byte(tt.body), false)
			if err != nil || page.Title != tt.title || page.Text != tt.text {
				t.Errorf("%+v, %v", page, err)
			}
			if !IsText(tt.contentType, []byte(tt.body)) {
				t.Error("is no text")
			}
		})
	}
	for contentType, body := range map[string]string{"image/png": "<p>a", "text/plain": "\x00\x01\x02", "": "\x89PNG\r\n\x1a\n", "text/css": "a {}"} {
		if IsText(contentType, []byte(body)) {
			t.Errorf("%s %q is text", contentType, body)
		}
	}
}

func TestMainText(t *testing.T) {
	var x Extractor
	page, err := x.Page("text/html", []byte(article()), true)
	if err != nil || page.Title != "A new bridge — The Example" {
		t.Fatalf("%+v, %v", page, err)
	}
	for part, inMain := range map[string]bool{"Section 7": false, "Story 7": false, "it’s said.": true} {
		if strings.Contains(page.Main, part) != inMain || !strings.Contains(page.Text, part) {
			t.Errorf("%s: in main text %v", part, !inMain)
		}
	}
	if strings.ContainsAny(page.Text+page.Main, "<{}") {
		t.Error("markup or scripts in the text")
	}
	if again, err := x.Page("text/html", []byte(article()), true); err != nil || *again != *page {
		t.Errorf("an extractor used again: %v", err)
	}
	if page, err := x.Page("text/html", []byte("<p>"), true); err != nil || page.Main != "" {
		t.Errorf("main text of an empty page: %+v, %v", page, err)
	}
}

func TestLongText(t *testing.T) {
	var x Extractor
	for _, contentType := range []string{"text/plain", "text/html"} {
		page, err := x.Page(contentType, []byte(strings.Repeat("é", MaxBytes)), false)
		if err != nil || !page.Cut || len(page.Text) != MaxBytes {
			t.Errorf("%s: %d bytes, cut %v, %v", contentType, len(page.Text), page.Cut, err)
		}
	}
}

func TestDetect(t *testing.T) {
	for _, tt := range []struct{ code, code3, text string }{
		{"en", "eng", "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood."},
		{"de", "deu", "Der Rat der Stadt hat gestern beschlossen, dass im nächsten Jahr eine neue Brücke über den Fluss gebaut wird, weil die alte für schwere Fahrzeuge nicht mehr sicher ist."},
		{"fr", "fra", "Le conseil municipal a décidé hier de construire un nouveau pont sur la rivière, parce que l'ancien n'est plus assez sûr pour les véhicules lourds."},
		{"es", "spa", "El ayuntamiento decidió ayer que el año que viene se construirá un nuevo puente sobre el río, porque el antiguo ya no es seguro para los vehículos pesados."},
		{"ru", "rus", "Городской совет решил построить в следующем году новый мост через реку, потому что старый больше не безопасен для тяжёлых машин."},
		{"ja", "jpn", "市議会は来年、川に新しい橋を架けることを決定しました。古い橋はもう安全ではないからです。"},
		{"zh", "zho", "市议会决定明年在河上建一座新桥,因为旧桥对重型车辆不再安全。"},
		{"ar", "ara", "قرر مجلس المدينة أمس بناء جسر جديد على النهر في العام المقبل لأن الجسر القديم لم يعد آمنا للمركبات الثقيلة."},
		{"fa", "fas", "شورای شهر دیروز تصمیم گرفت که سال آینده پل تازه\u200cای روی رودخانه ساخته شود چون پل قدیمی دیگر برای خودروهای سنگین ایمن نیست."},
		{"", "", "12345 67890 +-*/ 12345"},
		{"", "", "ok"},
		{"", "", ""},
	} {
		l := Detect(tt.text)
		if l.Code != tt.code || l.Code3 != tt.code3 || (l.Confidence > 0) != (tt.code != "") || l.Confidence > 1 {
			t.Errorf("%s: %+v", tt.code, l)
		}
		menu := strings.Repeat("Home\nLogin\nNews\n", 100)
		if long := Detect(menu + strings.Repeat(tt.text+" ", 3)); tt.code != "" && long.Code != tt.code {
			t.Errorf("%s after a menu: %+v", tt.code, long)
		}
	}
}

func TestSimHash(t *testing.T) {
	words := func(from, to int) string { return numbered(" word%d", to)[len(numbered(" word%d", from)):] }
	distance := func(a, b string) int { return bits.OnesCount64(SimHash(a) ^ SimHash(b)) }
	if d := distance(words(0, 1000), strings.ToUpper(words(0, 1000))+"!"); d != 0 {
		t.Errorf("the same words: %d bits", d)
	}
	if d := distance(words(0, 1000), words(20, 1020)); d > 10 {
		t.Errorf("98 %% of the words: %d bits", d)
	}
	if d := distance(words(0, 1000), words(1000, 2000)); d < 16 {
		t.Errorf("other words: %d bits", d)
	}
	chinese := "市议会决定明年在河上建一座新桥,因为旧桥对重型车辆不再安全。"
	if d := distance(strings.Repeat(chinese, 2), chinese+chinese[:len(chinese)-12]); d > 12 || SimHash(chinese) == 0 {
		t.Errorf("scripts without spaces: %d bits", d)
	}
	if SimHash("") != 0 || SimHash(" .,") != 0 || SimHash("中") == 0 || SimHash("a中b") == SimHash("ab中") {
		t.Error("texts of one word or none")
	}
	if got := SimHash("The quick brown fox."); got != SimHash("fox the QUICK brown") {
		t.Errorf("%x depends on the order", got)
	}
}

func FuzzPage(f *testing.F) {
	f.Add("text/html", []byte(article()))
	f.Add("text/html; charset=utf-16", []byte("<\x00p\x00>\x00a\x00"))
	f.Add("text/plain; charset=iso-2022-jp", []byte("\x1b$B\x24\x22"))
	f.Add("application/xhtml+xml", []byte("<?xml version='1.0' encoding='x'?><p/><title/><table><a><td><a>"))
	f.Add("text/html", []byte("<svg><title><b></title><math><annotation-xml><p><table><select><template><frameset>"))
	var x Extractor
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		page, err := x.Page(contentType, body, true)
		if page == nil {
			t.Fatal(err)
		}
		for _, s := range []string{page.Title, page.Text, page.Main} {
			if !utf8.ValidString(s) {
				t.Errorf("%q is not UTF-8", s)
			}
		}
		if len(page.Text) > MaxBytes || len(page.Title) > MaxTitleBytes || page.Language.Confidence < 0 || page.Language.Confidence > 1 {
			t.Errorf("%+v", page)
		}
	})
}

// article makes a page of 48 kB like those of a news site: navigation, scripts, an article of 50
// paragraphs with links and inline styles, and a list of other articles.
func article() string {
	rnd := rand.New(rand.NewPCG(1, 2))
	vocabulary := strings.Fields("the council has decided that a new bridge will be built across the river next year because old one is no longer safe for heavy " +
		"vehicles engineers found cracks in three of its pillars and said repairs would cost more than replacing them residents who live near by worry about noise")
	sentence := func(b *strings.Builder, n int) {
		for range n {
			b.WriteString(vocabulary[rnd.IntN(len(vocabulary))] + " ")
		}
	}
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>A new bridge &mdash; The Example</title>
<link rel="stylesheet" href="/main.css"><style>body { margin: 0; } .nav li { display: inline; }</style>
<script>window.settings = {"user": null, "ads": ["top", "side"], "version": 12};` + strings.Repeat("function f(a) { return a < 2; } ", 60) + `</script></head>
<body class="page"><header><nav class="nav"><ul>`)
	for i := range 40 {
		fmt.Fprintf(&b, "<li class=\"item\"><a class=\"link\" href=\"/section/%d?from=nav\">Section %d</a></li>\n", i, i)
	}
	b.WriteString("</ul></nav></header><main><article class=\"story\"><h1>A new bridge</h1>\n")
	for i := range 50 {
		b.WriteString("<p class=\"text\">")
		for range 5 {
			sentence(&b, 9)
			fmt.Fprintf(&b, `<a href="/topic/%d" title="topic">`, i)
			sentence(&b, 2)
			b.WriteString("</a> <b>")
			sentence(&b, 1)
			b.WriteString("</b>, it&rsquo;s said. ")
		}
		b.WriteString("</p>\n")
	}
	b.WriteString("</article></main><aside><ul>\n")
	for i := range 60 {
		fmt.Fprintf(&b, "<li><div class=\"teaser\"><a href=\"/story/%d\"><img src=\"/thumb/%d.jpg\" alt=\"\" width=\"120\" height=\"80\"><span>Story %d</span></a></div></li>\n", i, i, i)
	}
	b.WriteString("</ul></aside><footer><p>&copy; The Example</p></footer></body></html>\n")
	return b.String()
}
