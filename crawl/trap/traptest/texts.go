package traptest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// wiki is modelled on MediaWiki: articles with ten links each, anywhere, and with a history, a
// source and a discussion.
func wiki(scale int) Site {
	n := scaled(5000, scale)
	m := newMaker("wiki", 120, "/wiki/Help")
	title := func(i int) string { return capital(m.lang.nameOf(i)) }
	// Each article leads to the two below it in a tree, so that all are found, and to eight others.
	linked := func(i int) (to []int) {
		for k := 0; len(to) < 10; k++ {
			j := (2*i + 1 + k) % n
			if k >= 2 {
				j = m.between(0, n-1, "link", i, k)
			}
			if !slices.Contains(to, j) {
				to = append(to, j)
			}
		}
		return to
	}
	text := func(i int) string { return m.text(m.between(40, 300, "words", i), i) }
	article := func(i int) Answer {
		parts := []string{text(i)}
		for _, j := range linked(i) {
			parts = append(parts, a("/wiki/"+title(j), title(j)))
		}
		at := "/w/index.php?title=" + title(i)
		return m.page(title(i), append(parts, links(at+"&action=history", "history", at+"&action=edit", "edit", "/wiki/Talk:"+title(i), "talk"))...)
	}
	number := func(name string) (int, bool) {
		i, okay := m.lang.numberOf(strings.ToLower(name), n)
		return i, okay && title(i) == name
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		switch {
		case r.path == "/":
			return m.page("Main page", m.text(80, "home"), a("/wiki/"+title(0), title(0)))
		case r.path == "/wiki/Help":
			return m.page("Help", m.text(300, "help"))
		case r.is("wiki", "*"):
			name, talk := strings.CutPrefix(r.seg[1], "Talk:")
			i, okay := number(name)
			switch {
			case okay && talk:
				return m.page("Talk:"+name, p("There is no discussion of this article yet."), a("/wiki/"+name, "article"))
			case okay:
				return article(i)
			}
		case r.path == "/w/index.php":
			i, okay := number(r.query.Get("title"))
			switch {
			case okay && r.query.Get("action") == "history":
				return m.page("History of "+title(i), p(fmt.Sprintf("%d June 2019, %s: new article", m.between(1, 30, "day", i), m.name(1, "by", i))), a("/wiki/"+title(i), "article"))
			case okay && r.query.Get("action") == "edit":
				return m.page("Source of "+title(i), p("You may look at the source."), "<textarea>"+text(i)+"</textarea>", a("/wiki/"+title(i), "article"))
			}
		}
		return notFound
	}
	return Site{
		Name: "wiki", What: "articles with the same number of links each, a history, a source and a discussion", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for i := range n {
				if !yield("/wiki/" + title(i)) {
					return
				}
			}
		},
	}
}

// wikitree is modelled on outlines and taxonomies: each article leads to those below it alone, so
// that all of its links are new.
func wikitree(scale int) Site {
	n := scaled(5000, scale)
	m := newMaker("wikitree", 200)
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		i, okay := 0, r.path == "/"
		if r.is("topic", "*") {
			i, okay = m.lang.numberOf(r.seg[1], n)
			okay = okay && i > 0
		}
		if !okay {
			return notFound
		}
		var pairs []string
		for j := 5*i + 1; j <= 5*i+5 && j < n; j++ {
			pairs = append(pairs, "/topic/"+m.lang.nameOf(j), m.lang.nameOf(j))
		}
		return m.page(m.lang.nameOf(i), m.text(m.between(30, 150, "words", i), i), links(pairs...))
	}
	return Site{
		Name: "wikitree", What: "articles in a tree, each of which leads only to the five below it", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for i := 1; i < n; i++ {
				if !yield("/topic/" + m.lang.nameOf(i)) {
					return
				}
			}
		},
	}
}

// dictionary is modelled on Wiktionary and its like: a sentence or two, and the neighbours.
func dictionary(scale int) Site {
	m := newMaker("dictionary", 250)
	n := scaled(len(m.lang.sorted), scale)
	word := func(i int) string { return m.lang.sorted[i*len(m.lang.sorted)/n] }
	number := func(w string) (int, bool) {
		k, okay := slices.BinarySearch(m.lang.sorted, w)
		i := (k*n + len(m.lang.sorted) - 1) / len(m.lang.sorted)
		return i, okay && i < n && word(i) == w
	}
	letters := func(yield func(from, to int) bool) {
		for from := 0; from < n; {
			to := from
			for to < n && word(to)[0] == word(from)[0] {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		switch {
		case r.path == "/":
			var pairs []string
			for i := range letters {
				pairs = append(pairs, "/index/"+word(i)[:1], word(i)[:1])
			}
			return m.page("Words", links(pairs...))
		case r.is("index", "*"):
			for from, to := range letters {
				if word(from)[:1] == r.seg[1] {
					var parts []string
					for i := from; i < to; i++ {
						parts = append(parts, a("/word/"+word(i), word(i)))
					}
					return m.page("Letter "+r.seg[1], parts...)
				}
			}
		case r.is("word", "*"):
			if i, okay := number(r.seg[1]); okay {
				parts := []string{m.text(m.between(6, 24, "words", i), i)}
				if i > 0 {
					parts = append(parts, a("/word/"+word(i-1), word(i-1)))
				}
				if i+1 < n {
					parts = append(parts, a("/word/"+word(i+1), word(i+1)))
				}
				return m.page(word(i), append(parts, links("/index/"+word(i)[:1], "index"))...)
			}
		}
		return notFound
	}
	return Site{
		Name: "dictionary", What: "words with a sentence or two, and links to both neighbours", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for i := range letters {
				if !yield("/index/" + word(i)[:1]) {
					return
				}
			}
			for i := range n {
				if !yield("/word/" + word(i)) {
					return
				}
			}
		},
	}
}

// law is modelled on collections of laws: a page a section, of which many are a sentence.
func law(scale int) Site {
	laws := max(60/scale, 2)
	m := newMaker("law", 250)
	sections := func(l int) int { return m.between(40, 140, "sections", l) }
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		if r.path == "/" {
			var pairs []string
			for l := range laws {
				pairs = append(pairs, fmt.Sprintf("/law/%d", l), m.name(4, "law", l))
			}
			return m.page("Laws", links(pairs...))
		}
		if !r.is("law", "*") && !r.is("law", "*", "section", "*") {
			return notFound
		}
		l, okay := number(r.seg[1], laws)
		if !okay {
			return notFound
		}
		format, n := fmt.Sprintf("/law/%d/section/", l)+"%d", sections(l)
		if len(r.seg) == 2 {
			var pairs []string
			for s := range n {
				pairs = append(pairs, fmt.Sprintf(format, s), fmt.Sprint("Section ", s))
			}
			return m.page(m.name(4, "law", l), links(pairs...))
		}
		s, okay := number(r.seg[3], n)
		if !okay {
			return notFound
		}
		return m.page(fmt.Sprint("Section ", s), m.text(m.between(20, 200, "words", l, s), l, s), chain(format, s, n), a(fmt.Sprintf("/law/%d", l), "contents"))
	}
	return Site{
		Name: "law", What: "laws with a page a section, from one sentence on", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for l := range laws {
				if !yield(fmt.Sprintf("/law/%d", l)) || !each(yield, sections(l), fmt.Sprintf("/law/%d/section/", l)+"%d") {
					return
				}
			}
		},
	}
}

// docs is modelled on documentation that keeps all versions: the same page twelve times, with some
// words changed.
func docs(scale int) Site {
	versions, pages := 12, scaled(400, scale)
	m := newMaker("docs", 100)
	at := func(v, i int) string { return fmt.Sprintf("/v1.%d/", v) + m.lang.nameOf(i) }
	version := func(s string) (int, bool) {
		num, okay := strings.CutPrefix(s, "v1.")
		v, is := number(num, versions)
		return v, okay && is
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		var pairs []string
		if r.path == "/" {
			for v := range versions {
				pairs = append(pairs, fmt.Sprintf("/v1.%d", v), fmt.Sprintf("version 1.%d", v))
			}
			return m.page("Documentation", links(pairs...))
		}
		v, okay := version(r.seg[0])
		switch {
		case !okay || len(r.seg) > 2:
			return notFound
		case len(r.seg) == 1:
			for i := range pages {
				pairs = append(pairs, at(v, i), m.lang.nameOf(i))
			}
			return m.page(fmt.Sprintf("Version 1.%d", v), links(pairs...))
		}
		i, okay := m.lang.numberOf(r.seg[1], pages)
		if !okay {
			return notFound
		}
		for w := range versions {
			pairs = append(pairs, at(w, i), fmt.Sprintf("1.%d", w))
		}
		for k := i / 20 * 20; k < min(i/20*20+20, pages); k++ {
			pairs = append(pairs, at(v, k), m.lang.nameOf(k))
		}
		changed := m.text(m.between(1, 6, "changed", i, v), i, "version", v)
		return m.page(m.lang.nameOf(i), m.text(m.between(40, 250, "words", i), i), changed, links(pairs...))
	}
	return Site{
		Name: "docs", What: "documentation in twelve versions that say almost the same", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for v := range versions {
				if !yield(fmt.Sprintf("/v1.%d", v)) {
					return
				}
				for i := range pages {
					if !yield(at(v, i)) {
						return
					}
				}
			}
		},
	}
}

var tongues = strings.Fields("en de fr es it nl pl pt")

// vocabularies are the languages of a site with several.
var vocabularies = sync.OnceValue(func() []*language {
	all := []*language{base()}
	for _, t := range tongues[1:] {
		all = append(all, newLanguage(t))
	}
	return all
})

// multilingual is modelled on sites of public bodies: eight languages, and what nobody has
// translated is there in the first of them.
func multilingual(scale int) Site {
	n := scaled(300, scale)
	var makers []*maker
	for _, l := range vocabularies() {
		makers = append(makers, newMakerIn(l, "multilingual", 80))
	}
	first := makers[0]
	translated := func(t, i int) bool { return t == 0 || first.between(0, 2, "translated", t, i) > 0 }
	at := func(t, i int) string { return "/" + tongues[t] + "/" + first.lang.nameOf(i) }
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		var pairs []string
		if r.path == "/" {
			for _, t := range tongues {
				pairs = append(pairs, "/"+t, t)
			}
			return first.page("Languages", links(pairs...))
		}
		t := slices.Index(tongues, r.seg[0])
		if t < 0 || len(r.seg) > 2 {
			return notFound
		}
		m := makers[t]
		if len(r.seg) == 1 {
			for i := range n {
				pairs = append(pairs, at(t, i), m.name(2, i))
			}
			return m.page(m.name(2, "home"), links(pairs...))
		}
		i, okay := first.lang.numberOf(r.seg[1], n)
		if !okay {
			return notFound
		}
		for k := range tongues {
			pairs = append(pairs, at(k, i), tongues[k])
		}
		if !translated(t, i) {
			m = first
		}
		return m.page(m.name(2, i), m.text(first.between(40, 200, "words", i), i), links(pairs...))
	}
	return Site{
		Name: "multilingual", What: "eight languages, with the same page in each where there is no translation", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for t := range tongues {
				if !yield("/" + tongues[t]) {
					return
				}
				for i := range n {
					if translated(t, i) && !yield(at(t, i)) {
						return
					}
				}
			}
		},
	}
}
