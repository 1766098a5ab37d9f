package link

import "testing"

// whatwgCase is one URL and what the parser makes of it. Empty: it has to fail.
type whatwgCase struct{ input, want string }

// whatwgCases follow the URL Standard of the WHATWG; each was written from its text. They are of
// the parser alone: what the crawl drops behind it (fragments, credentials, ports of other
// protocols) is still there. TestOneKey and TestTwoKeys have the whole canonical form.
var whatwgCases = []struct {
	group string
	base  string // empty: none
	cases []whatwgCase
}{
	{"white space and controls", "", []whatwgCase{
		{" \x00\x1fhttp://a.example/ \n", "http://a.example/"},
		{"ht\ttp://a.ex\nample/\rx", "http://a.example/x"},
		{"http://a.example/x\ty?\nz#\r", "http://a.example/xy?z#"},
		{"http://a.example/x y", "http://a.example/x%20y"},
	}},
	{"scheme", "", []whatwgCase{
		{"HtTpS://a.example/", "https://a.example/"},
		{"http:a.example", "http://a.example/"},
		{"http:/a.example/x", "http://a.example/x"},
		{"http:///a.example/x", "http://a.example/x"},
		{`http:\\a.example\x`, "http://a.example/x"},
		{`http:/\/\a.example`, "http://a.example/"},
		{"//a.example/", ""},
		{"a.example/x", ""},
		{"1http://a.example/", ""},
		{"://a.example/", ""},
		{"", ""},
		{"a+b-c.1:x", "a+b-c.1:x"},
		{"mailto:queen@hive.example", "mailto:queen@hive.example"},
		{"javascript:alert(1 + 1)", "javascript:alert(1 + 1)"},
		{"data:text/plain,a b", "data:text/plain,a b"},
		{"file:///a/../b", "file:///b"},
		{"file://localhost/a", "file:///a"},
		{"file:/C|/x/../..", "file:///C:/"},
		{"ws://a.example:80/", "ws://a.example/"},
		{"wss://a.example:443", "wss://a.example/"},
		{"ftp://a.example:21/x", "ftp://a.example/x"},
		{"hive://A.example:80/../x", "hive://A.example:80/x"},
	}},
	{"credentials", "", []whatwgCase{
		{"http://u@a.example/", "http://u@a.example/"},
		{"http://u:@a.example/", "http://u@a.example/"},
		{"http://:p@a.example/", "http://:p@a.example/"},
		{"http://@a.example/", "http://a.example/"},
		{"http://:@a.example/", "http://a.example/"},
		{"http://u@v@a.example/", "http://u%40v@a.example/"},
		{"http://u:p:q@a.example/", "http://u:p%3Aq@a.example/"},
		{"http://u v:;=@a.example/", "http://u%20v:%3B%3D@a.example/"},
		{"http://u@/x", ""},
		{"http://u@:80/", ""},
		{"http://a.example/@x", "http://a.example/@x"},
		{"http://a.example?u@x", "http://a.example/?u@x"},
		{`http://a.example\@b.example/`, "http://a.example/@b.example/"},
	}},
	{"port", "", []whatwgCase{
		{"http://a.example:80/", "http://a.example/"},
		{"https://a.example:443/", "https://a.example/"},
		{"http://a.example:443/", "http://a.example:443/"},
		{"http://a.example:/", "http://a.example/"},
		{"http://a.example:0/", "http://a.example:0/"},
		{"http://a.example:65535/", "http://a.example:65535/"},
		{"http://a.example:00000081/", "http://a.example:81/"},
		{"http://a.example:8\t1/", "http://a.example:81/"},
		{"http://a.example:81?x", "http://a.example:81/?x"},
		{`http://a.example:81\x`, "http://a.example:81/x"},
		{"http://a.example:65536/", ""},
		{"http://a.example:8a/", ""},
		{"http://a.example:-1/", ""},
		{"http://a.example: 81/", ""},
		{"http://a.example:80:80/", ""},
		{"http://:80/", ""},
	}},
	{"name", "", []whatwgCase{
		{"http://A.Example/", "http://a.example/"},
		{"http://%61%2Eexample/", "http://a.example/"},
		{"http://a_b.example/", "http://a_b.example/"},
		{"http://-a-.example/", "http://-a-.example/"},
		{"http://a.example./", "http://a.example./"},
		{"http://a..example/", "http://a..example/"},
		{"http://BÜCHER.example/", "http://xn--bcher-kva.example/"},
		{"http://b%C3%BCcher.example/", "http://xn--bcher-kva.example/"},
		{"http://XN--BCHER-KVA.example/", "http://xn--bcher-kva.example/"},
		{"http://faß.example/", "http://xn--fa-hia.example/"},
		{"http://FAẞ.example/", "http://xn--fa-hia.example/"},
		{"http://fa%E1%ba%9E.example/", "http://xn--fa-hia.example/"},
		{"http://ẞ/", "http://xn--zca/"},
		{"http://ẞ%2541/", ""},
		{"http://%5Bẞ]/", ""},
		{"http://日本.example/", "http://xn--wgv71a.example/"},
		{"http://ａ.example/", "http://a.example/"},
		{"http://a。example/", "http://a.example/"},
		{"http://a\u00adb.example/", "http://ab.example/"},
		{"http://\u00ad/", ""},
		{"http://xn--/", ""},
		{"http:///", ""},
		{"http://?x", ""},
		{"http://a b.example/", ""},
		{"http://a%20b.example/", ""},
		{"http://a%00b.example/", ""},
		{"http://a<b.example/", ""},
		{"http://a^b.example/", ""},
		{"http://a|b.example/", ""},
		{"http://a%25b.example/", ""},
		{"http://a%zz.example/", ""},
		{"http://a[b.example/", ""},
	}},
	{"IPv4", "", []whatwgCase{
		{"http://192.168.0.1/", "http://192.168.0.1/"},
		{"http://192.168.257/", "http://192.168.1.1/"},
		{"http://192.11010049/", "http://192.168.0.1/"},
		{"http://3232235521/", "http://192.168.0.1/"},
		{"http://0xC0.0XA8.1/", "http://192.168.0.1/"},
		{"http://0300.0250.00.01/", "http://192.168.0.1/"},
		{"http://192.168.0.1./", "http://192.168.0.1/"},
		{"http://0x/", "http://0.0.0.0/"},
		{"http://１９２.168.0.%31/", "http://192.168.0.1/"},
		{"http://1.2.3.4a/", "http://1.2.3.4a/"},
		{"http://1.2.3.4.a/", "http://1.2.3.4.a/"},
		{"http://256.1.1.1/", ""},
		{"http://1.2.3.256/", ""},
		{"http://1.2.65536/", ""},
		{"http://1.2.3.4.5/", ""},
		{"http://4294967296/", ""},
		{"http://0x100000000/", ""},
		{"http://1.2.3.08/", ""},
		{"http://a.1/", ""},
		{"http://1..2/", ""},
	}},
	{"IPv6", "", []whatwgCase{
		{"http://[2001:DB8:0:0:0:0:0:1]/", "http://[2001:db8::1]/"},
		{"http://[::FFFF:192.0.2.1]:81/", "http://[::ffff:c000:201]:81/"},
		{"http://[1:0:0:2:0:0:0:3]/", "http://[1:0:0:2::3]/"},
		{"http://[1:0:0:2:3:0:0:4]/", "http://[1::2:3:0:0:4]/"},
		{"http://[1:0:2:3:4:5:6:7]/", "http://[1:0:2:3:4:5:6:7]/"},
		{"http://[0:0:0:0:0:0:0:0]/", "http://[::]/"},
		{"http://[0001:02:003::]/", "http://[1:2:3::]/"},
		{"http://[1:2:3:4:5:6:7]/", ""},
		{"http://[1:2:3:4:5:6:7:8:9]/", ""},
		{"http://[1::2::3]/", ""},
		{"http://[12345::]/", ""},
		{"http://[::1.2.3]/", ""},
		{"http://[::1.2.3.256]/", ""},
		{"http://[::01.2.3.4]/", ""},
		{"http://[::1%25eth0]/", ""},
		{"http://[::1/", ""},
		{"http://[]/", ""},
		{"http://[::1]a/", ""},
	}},
	{"path", "", []whatwgCase{
		{"http://a.example", "http://a.example/"},
		{"http://a.example/a/./b/../c", "http://a.example/a/c"},
		{"http://a.example/a/b/..", "http://a.example/a/"},
		{"http://a.example/a/b/.", "http://a.example/a/b/"},
		{"http://a.example/../..", "http://a.example/"},
		{"http://a.example/a/%2e%2E/b", "http://a.example/b"},
		{"http://a.example/a/.%2e/%2e/b", "http://a.example/b"},
		{"http://a.example/a/.../b", "http://a.example/a/.../b"},
		{"http://a.example/a//../b", "http://a.example/a/b"},
		{"http://a.example//a///b/", "http://a.example//a///b/"},
		{`http://a.example/a\b\..\c`, "http://a.example/a/c"},
		{"http://a.example/a%2Fb%5cc", "http://a.example/a%2Fb%5cc"},
		{"http://a.example/ \"<>`{}", "http://a.example/%20%22%3C%3E%60%7B%7D"},
		{"http://a.example/!$&'()*+,-.:;=@_~|[]", "http://a.example/!$&'()*+,-.:;=@_~|[]"},
		{"http://a.example/%zz%", "http://a.example/%zz%"},
		{"http://a.example/é\x7f", "http://a.example/%C3%A9%7F"},
		{"http://a.example/🐝", "http://a.example/%F0%9F%90%9D"},
	}},
	{"query and fragment", "", []whatwgCase{
		{"http://a.example/?", "http://a.example/?"},
		{"http://a.example/?a?b/../c", "http://a.example/?a?b/../c"},
		{"http://a.example/?a b\"<>'", "http://a.example/?a%20b%22%3C%3E%27"},
		{"http://a.example/?`{}|^\\[]", "http://a.example/?`{}|^\\[]"},
		{"http://a.example/?é&%zz", "http://a.example/?%C3%A9&%zz"},
		{"http://a.example/?a=1&a=2&", "http://a.example/?a=1&a=2&"},
		{"http://a.example/#", "http://a.example/#"},
		{"http://a.example/#a#b?c", "http://a.example/#a#b?c"},
		{"http://a.example/#a b\"<>`", "http://a.example/#a%20b%22%3C%3E%60"},
		{"http://a.example#?é", "http://a.example/#?%C3%A9"},
	}},
	{"relative", "http://a.example:81/b/c/d;p?q#f", []whatwgCase{
		{"g", "http://a.example:81/b/c/g"},
		{"./g", "http://a.example:81/b/c/g"},
		{"g/", "http://a.example:81/b/c/g/"},
		{"/g", "http://a.example:81/g"},
		{"//g", "http://g/"},
		{"///g", "http://g/"},
		{"//u@g:82", "http://u@g:82/"},
		{"?y", "http://a.example:81/b/c/d;p?y"},
		{"?", "http://a.example:81/b/c/d;p?"},
		{"g?y", "http://a.example:81/b/c/g?y"},
		{"#s", "http://a.example:81/b/c/d;p?q#s"},
		{"g#s", "http://a.example:81/b/c/g#s"},
		{";x", "http://a.example:81/b/c/;x"},
		{"", "http://a.example:81/b/c/d;p?q"},
		{".", "http://a.example:81/b/c/"},
		{"..", "http://a.example:81/b/"},
		{"../g", "http://a.example:81/b/g"},
		{"../../g", "http://a.example:81/g"},
		{"../../../g", "http://a.example:81/g"},
		{"/./g", "http://a.example:81/g"},
		{"/../g", "http://a.example:81/g"},
		{"g.", "http://a.example:81/b/c/g."},
		{"..g", "http://a.example:81/b/c/..g"},
		{"g/../h", "http://a.example:81/b/c/h"},
		{"g;x=1/../y", "http://a.example:81/b/c/y"},
		{"g?y/../x", "http://a.example:81/b/c/g?y/../x"},
		{"%2e%2e/g", "http://a.example:81/b/g"},
		{`\g`, "http://a.example:81/g"},
		{`\\g\h`, "http://g/h"},
		{`..\g`, "http://a.example:81/b/g"},
		{"http:g", "http://a.example:81/b/c/g"},
		{"http:/g", "http://a.example:81/g"},
		{"http:?y", "http://a.example:81/b/c/d;p?y"},
		{"https:g", "https://g/"},
		{"g:h", "g:h"},
		{"1:h", "http://a.example:81/b/c/1:h"},
		{"g/h:i", "http://a.example:81/b/c/g/h:i"},
		{"//", ""},
		{"http://", ""},
		{"//:81", ""},
	}},
	{"relative to a URL without a path", "mailto:queen@hive.example", []whatwgCase{
		{"#f", "mailto:queen@hive.example#f"},
		{"x", ""},
		{"//a.example/", ""},
		{"http://a.example/", "http://a.example/"},
	}},
	{"relative to a file", "file:///a/b", []whatwgCase{
		{"c", "file:///a/c"},
		{"/c", "file:///c"},
		{"//c/d", "file://c/d"},
		{"http://a.example/", "http://a.example/"},
	}},
}

func TestWHATWG(t *testing.T) {
	for _, g := range whatwgCases {
		for _, tc := range g.cases {
			if got, ok := href(g.base, tc.input); got != tc.want || ok != (tc.want != "") {
				t.Errorf("%s: %q against %q: %q, %v; want %q", g.group, tc.input, g.base, got, ok, tc.want)
			}
		}
	}
}

// TestOneKey has spellings of one page, which must not be fetched twice.
func TestOneKey(t *testing.T) {
	for _, spellings := range [][]string{
		{"http://a.example/", "HTTP://A.EXAMPLE", "http://a.example:80", "http://a.example./", "http://a.example/#top", "http://a.example/x/..", "http:/a.example"},
		{"http://a.example/~bee", "http://a.example/%7Ebee", "http://a.example/%7ebee", "http://a.example/./%7E%62%65e", "http://u:p@a.example/~bee"},
		{"http://a.example/%C3%A9", "http://a.example/%c3%a9", "http://a.example/é"},
		{"http://a.example/a%2Fb", "http://a.example/a%2fb"},
		{"http://a.example/?q=bee", "http://a.example?q=bee", "http://a.example/?q=%62ee", "http://a.example/?q=bee#x"},
		{"https://xn--bcher-kva.example/", "https://bücher.example/", "https://BÜCHER.example:443/", "https://XN--bcher-KVA.example"},
		{"http://127.0.0.1/", "http://127.1/", "http://0x7f000001/", "http://2130706433/", "http://0177.0.0.1/"},
		{"http://[2001:db8::1]/", "http://[2001:DB8:0::0:1]:80/"},
		{"http://a.example/b/c", `http:\\a.example\b\c`, "http://a.example/b/./c", "http://a.example/%2e/b/c", "http://a.example/b/d/../c"},
		{"http://a.example/x%20y", "http://a.example/x y", "http://a.example/x%20\ny"},
	} {
		want, err := Canonical(spellings[0])
		if err != nil || want != spellings[0] {
			t.Errorf("%q is not canonical: %q, %v", spellings[0], want, err)
		}
		for _, s := range spellings[1:] {
			if got, err := Canonical(s); err != nil || got != want {
				t.Errorf("%q: %q, %v; want %q", s, got, err, want)
			}
		}
	}
}

// TestTwoKeys has pairs that look alike, of which a server may make two pages.
func TestTwoKeys(t *testing.T) {
	for _, pair := range [][2]string{
		{"http://a.example/", "https://a.example/"},
		{"http://a.example/", "http://www.a.example/"},
		{"http://a.example/", "http://a.example:8080/"},
		{"http://a.example/", "http://a.example/index.html"},
		{"http://a.example/a", "http://a.example/A"},
		{"http://a.example/a", "http://a.example/a/"},
		{"http://a.example/a", "http://a.example//a"},
		{"http://a.example/a", "http://a.example/a?"},
		{"http://a.example/a/b", "http://a.example/a%2Fb"},
		{"http://a.example/a;b", "http://a.example/a%3Bb"},
		{"http://a.example/?a=1&b=2", "http://a.example/?b=2&a=1"},
		{"http://a.example/?a=1", "http://a.example/?a=1&"},
		{"http://a.example/?a=1", "http://a.example/?A=1"},
		{"http://a.example/?a=b+c", "http://a.example/?a=b%20c"},
		{"http://a.example/?a=%26b", "http://a.example/?a=&b"},
		{"http://a.example/%", "http://a.example/%25"},
		{"http://a.example/a|b", "http://a.example/a%7Cb"},
		{"http://faß.example/", "http://fass.example/"},
		{"http://FAẞ.example/", "http://fass.example/"},
		{"http://127.0.0.1/", "http://[::ffff:127.0.0.1]/"},
	} {
		a, errA := Canonical(pair[0])
		b, errB := Canonical(pair[1])
		if errA != nil || errB != nil || a == b {
			t.Errorf("%q: %q, %v; %q: %q, %v", pair[0], a, errA, pair[1], b, errB)
		}
	}
}
