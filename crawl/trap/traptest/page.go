package traptest

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	htmlType = "text/html; charset=utf-8"
	textType = "text/plain; charset=utf-8"
)

// maker makes the pages of one site: what they have in common, and the words of each.
type maker struct {
	site       string
	lang       *language
	head, foot string
}

// newMaker makes a site's frame of so many words: a bar of links, a box beside, help and a foot.
func newMaker(site string, frame int, links ...string) *maker {
	return newMakerIn(base(), site, frame, links...)
}

func newMakerIn(l *language, site string, frame int, links ...string) *maker {
	rng := random(site, "frame")
	m := &maker{site: site, lang: l}
	var bar strings.Builder
	for _, to := range append([]string{"/"}, links...) {
		bar.WriteString("<li>" + a(to, l.name(rng, 1)))
	}
	name := l.name(rng, 2)
	m.head = "<header><b>" + name + "</b><nav><ul>" + bar.String() + "</ul></nav></header>\n<main>\n"
	m.foot = "\n</main>\n<aside><h3>" + l.name(rng, 1) + "</h3><p>" + l.text(rng, frame/2) + "</p></aside>\n<footer><p>" +
		l.text(rng, frame/2) + "</p>&copy; " + name + "</footer>\n</body></html>\n"
	return m
}

// page is a page in the frame.
func (m *maker) page(title string, parts ...string) Answer {
	return ok(htmlType, "<!DOCTYPE html>\n<html><head><meta charset=utf-8><title>"+html.EscapeString(title)+" - "+m.site+"</title></head>\n<body>\n"+
		m.head+"<h1>"+html.EscapeString(title)+"</h1>\n"+strings.Join(parts, "\n")+m.foot)
}

// text is a paragraph of n words that hang on the parts.
func (m *maker) text(n int, parts ...any) string {
	return p(m.lang.text(random(append([]any{m.site, "text"}, parts...)...), n))
}

// name is a title of n words that hang on the parts.
func (m *maker) name(n int, parts ...any) string {
	return m.lang.name(random(append([]any{m.site, "name"}, parts...)...), n)
}

// between is a number of [least, most] that hangs on the parts.
func (m *maker) between(least, most int, parts ...any) int {
	return between(least, most, append([]any{m.site, "number"}, parts...)...)
}

// login is the page for whoever must log in first: the same one wherever it is shown.
func (m *maker) login() Answer {
	return m.page("Log in", p("Please log in to continue."), "<form method=post><input name=name><input name=password type=password><button>Log in</button></form>",
		m.text(30, "login"))
}

func ok(kind, body string) Answer {
	return Answer{Status: http.StatusOK, Type: kind, Body: []byte(body)}
}

// moved is a redirect.
func moved(to string) Answer { return Answer{Status: http.StatusFound, Type: htmlType, Location: to} }

// a is a link.
func a(to, text string) string {
	return `<a href="` + html.EscapeString(to) + `">` + html.EscapeString(text) + "</a>"
}

func p(text string) string { return "<p>" + text + "</p>" }

// links is a list of links, with what each is called.
func links(pairs ...string) string {
	var b strings.Builder
	b.WriteString("<ul>")
	for i := 0; i+1 < len(pairs); i += 2 {
		b.WriteString("<li>" + a(pairs[i], pairs[i+1]) + "\n")
	}
	b.WriteString("</ul>")
	return b.String()
}

// chain is a link to the one before and one to the one after, of n; they end where it ends.
func chain(format string, i, n int) string {
	s := ""
	if i > 0 {
		s += a(fmt.Sprintf(format, i-1), "previous")
	}
	if i+1 < n {
		s += " " + a(fmt.Sprintf(format, i+1), "next")
	}
	return p(s)
}

// list is a list of items on several pages, the first of which is at path.
type list struct {
	path string
	mark string // between path and the number of a further page, such as ?page=
	n    int    // items
	per  int    // items on a page
}

func (l list) pages() int { return max(1, (l.n+l.per-1)/l.per) }

func (l list) at(page int) string {
	if page == 1 {
		return l.path
	}
	return l.path + l.mark + strconv.Itoa(page)
}

// items are the numbers of the items of a page, and the links to the other pages.
func (l list) items(page int) (from, to int, pager string) {
	var pairs []string
	for _, k := range []int{1, page - 1, page + 1, l.pages()} {
		if k >= 1 && k <= l.pages() && k != page {
			pairs = append(pairs, l.at(k), fmt.Sprint("page ", k))
		}
	}
	return (page - 1) * l.per, min(page*l.per, l.n), links(pairs...)
}

// each yields the pages of the list.
func (l list) each(yield func(string) bool) bool {
	for page := range l.pages() {
		if !yield(l.at(page + 1)) {
			return false
		}
	}
	return true
}

// each yields n paths of a format.
func each(yield func(string) bool, n int, format string) bool {
	for i := range n {
		if !yield(fmt.Sprintf(format, i)) {
			return false
		}
	}
	return true
}

// number reads a number below n as it is written canonically.
func number(s string, n int) (int, bool) {
	i, err := strconv.Atoi(s)
	return i, err == nil && i >= 0 && i < n && strconv.Itoa(i) == s
}

// pageOf reads the number of a further page of a list: there is no page 1 by that name.
func (l list) pageOf(s string) (int, bool) {
	if s == "" {
		return 1, true
	}
	i, ok := number(s, l.pages()+1)
	return i, ok && i > 1
}

// request is a path in its segments, and a query.
type request struct {
	path  string
	seg   []string
	raw   string
	query url.Values
}

func parse(pathQuery string) request {
	path, raw, _ := strings.Cut(pathQuery, "?")
	q, _ := url.ParseQuery(raw)
	return request{path: path, seg: strings.Split(strings.Trim(path, "/"), "/"), raw: raw, query: q}
}

// is says whether the path has these segments, where * stands for any.
func (r request) is(pattern ...string) bool {
	if len(pattern) != len(r.seg) {
		return false
	}
	for i, s := range pattern {
		if s != "*" && s != r.seg[i] {
			return false
		}
	}
	return true
}

// least is how many things a site has at the smallest scale.
const least = 20

// scaled is n at a scale.
func scaled(n, scale int) int { return max(n/scale, min(n, least)) }
