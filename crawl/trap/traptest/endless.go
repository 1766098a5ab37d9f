package traptest

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// calendar goes on for ever in both directions, and nothing happens.
func calendar() Site {
	m := newMaker("calendar", 100)
	get := func(pathQuery string) Answer {
		t := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var y, mon, d int
		switch n, _ := fmt.Sscanf(pathQuery, "/cal/%d/%d/%d", &y, &mon, &d); {
		case n == 3:
			return m.page(fmt.Sprintf("%d. %d. %d", d, mon, y), p("No events."), a(fmt.Sprintf("/cal/%d/%d", y, mon), "month"))
		case n == 2:
			t = time.Date(y, time.Month(mon), 1, 0, 0, 0, 0, time.UTC)
		}
		month := func(t time.Time) string { return fmt.Sprintf("/cal/%d/%d", t.Year(), t.Month()) }
		pairs := []string{month(t.AddDate(0, -1, 0)), "previous", month(t.AddDate(0, 1, 0)), "next"}
		for day := range 28 {
			pairs = append(pairs, fmt.Sprintf("%s/%d", month(t), day+1), fmt.Sprint(day+1))
		}
		return m.page(t.Format("January 2006"), p("No events."), links(pairs...))
	}
	return Site{Name: "calendar", What: "empty months and days without end", Start: "/", Get: get}
}

// growing answers every path with a page whose links add to the path.
func growing() Site {
	m := newMaker("path", 100)
	get := func(pathQuery string) Answer {
		path, _, _ := strings.Cut(pathQuery, "?")
		path = strings.TrimSuffix(path, "/")
		return m.page("Folder", m.text(100, "same"), links(path+"/a/", "a", path+"/b/", "b", path+"/c/", "c"))
	}
	return Site{Name: "path", What: "the same page wherever one asks, with links that grow by a folder", Start: "/", Get: get}
}

// same says the same under ever new ids, fifty on each page.
func same() Site {
	m := newMaker("same", 100)
	get := func(pathQuery string) Answer {
		var pairs []string
		for k := range 50 {
			pairs = append(pairs, fmt.Sprintf("/item/%d", hash(pathQuery, k)>>16), "more")
		}
		return m.page("Item", m.text(100, "same"), links(pairs...))
	}
	return Site{Name: "same", What: "one page under ever new ids, fifty of them on each", Start: "/", Get: get}
}

// session gives each page that is asked for the id of a new session for its links.
func session() Site {
	const pages = 30
	m := newMaker("session", 100)
	get := func(pathQuery string) Answer {
		var id string
		page := 0
		_, _ = fmt.Sscanf(strings.ReplaceAll(pathQuery, "/", " "), "s %s page %d", &id, &page)
		page %= pages
		var pairs []string
		for k := range 5 {
			pairs = append(pairs, fmt.Sprintf("/s/%s/page/%d", digest(pathQuery), (page*5+k+1)%pages), "page")
		}
		return m.page(m.name(3, page), m.text(120, page), links(pairs...))
	}
	return Site{Name: "session", What: "thirty pages, with a new session in all links of each answer", Start: "/", Get: get}
}

// facets adds a filter to the ones that are chosen, and shows the same whatever they are.
func facets() Site {
	m := newMaker("facets", 100)
	get := func(pathQuery string) Answer {
		path, query, _ := strings.Cut(pathQuery, "?")
		chosen := strings.Split(query, "&")
		var pairs []string
		for k := range 12 {
			filter := m.lang.nameOf(k) + "=" + m.lang.nameOf(100+int(hash(pathQuery, k)%50))
			rest := append([]string(nil), chosen...)
			if rest[0] == "" {
				rest = rest[1:]
			}
			for i, c := range rest {
				if strings.HasPrefix(c, m.lang.nameOf(k)+"=") {
					rest = append(rest[:i:i], rest[i+1:]...)
					break
				}
			}
			pairs = append(pairs, path+"?"+strings.Join(append(rest, filter), "&"), m.lang.nameOf(k))
		}
		return m.page("Products", m.text(150, "same"), links(pairs...))
	}
	return Site{Name: "facets", What: "the same products for every combination of filters in any order", Start: "/list", Get: get}
}

// babble is a text of n words of which each follows from the one before, as a Markov chain has it.
func (m *maker) babble(n int, parts ...any) string {
	rng := random(append([]any{m.site, "babble"}, parts...)...)
	words := make([]string, n)
	last := m.lang.draw(rng)
	for i := range words {
		words[i] = last
		last = m.lang.draw(random("after", last, rng.IntN(12)))
	}
	return p(strings.Join(words, " ") + ".")
}

// labyrinth is modelled on Iocaine and Nepenthes: made-up paragraphs, and links to more of them.
func labyrinth() Site {
	return maze("labyrinth", "made-up paragraphs with five to ten links to more of them", 5, 10)
}

// markov is the same with one link or two.
func markov() Site {
	return maze("markov", "made-up paragraphs with a link or two to more of them", 1, 2)
}

func maze(name, what string, fewest, most int) Site {
	m := newMaker(name, 20)
	get := func(pathQuery string) Answer {
		var parts []string
		for k := range m.between(2, 5, "paragraphs", pathQuery) {
			parts = append(parts, m.babble(m.between(20, 80, "words", pathQuery, k), pathQuery, k))
		}
		for k := range m.between(fewest, most, "links", pathQuery) {
			title := m.name(m.between(2, 3, "length", pathQuery, k), "to", pathQuery, k)
			parts = append(parts, a("/"+strings.ToLower(strings.ReplaceAll(title, " ", "/")), title))
		}
		return m.page(m.name(3, pathQuery), parts...)
	}
	return Site{Name: name, What: what, Start: "/", Get: get}
}

// near changes three words of a page of two hundred.
func near() Site {
	m := newMaker("near", 20)
	body := strings.Fields(m.text(200, "same"))
	get := func(pathQuery string) Answer {
		rng := random(m.site, pathQuery)
		words := append([]string(nil), body...)
		for range 3 {
			words[1+rng.IntN(len(words)-2)] = m.lang.draw(rng)
		}
		var pairs []string
		for range 4 {
			pairs = append(pairs, fmt.Sprintf("/page/%d", rng.Uint64N(1e12)), "more")
		}
		return m.page("Page", strings.Join(words, " "), links(pairs...))
	}
	return Site{Name: "near", What: "pages that differ in three words, with new links on each", Start: "/", Get: get}
}

// login leads to itself, with the way back to where one comes from.
func login() Site {
	m := newMaker("login", 60)
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		back := r.query.Get("return")
		if len(back) > 1000 {
			back = "/" + digest(back)
		}
		answer := m.login()
		var pairs []string
		for _, s := range []string{"/account", "/basket", "/help"} {
			pairs = append(pairs, "/login?return="+url.QueryEscape(back+s), "log in")
		}
		answer.Body = append(answer.Body, links(pairs...)...)
		return answer
	}
	return Site{Name: "login", What: "a login that leads to itself with an ever longer way back", Start: "/login", Get: get}
}

// numbers says nothing but numbers, and leads to the next ones.
func numbers() Site {
	m := newMaker("numbers", 40)
	get := func(pathQuery string) Answer {
		n := 0
		_, _ = fmt.Sscanf(pathQuery, "/n/%d", &n)
		rng := random(m.site, n)
		var b strings.Builder
		for range 80 {
			fmt.Fprintf(&b, "<td>%d", rng.IntN(1e6))
		}
		return m.page(fmt.Sprint(n), "<table><tr>"+b.String()+"</table>", links(fmt.Sprintf("/n/%d", n+1), "next", fmt.Sprintf("/n/%d", n+10), "skip"))
	}
	return Site{Name: "numbers", What: "tables of random numbers without end", Start: "/n/0", Get: get}
}

// search finds the same for every question, and proposes further ones.
func search() Site {
	m := newMaker("search", 80)
	get := func(pathQuery string) Answer {
		rng := random(m.site, pathQuery)
		var pairs []string
		for range 10 {
			words := strings.ToLower(m.lang.name(rng, 2))
			pairs = append(pairs, "/search?q="+strings.ReplaceAll(words, " ", "+"), words)
		}
		q := parse(pathQuery).query.Get("q")
		return m.page("Search", p("Results for "+q), m.text(120, "same"), p("Others searched for"), links(pairs...))
	}
	return Site{Name: "search", What: "the same results for every question, and links to more questions", Start: "/search", Get: get}
}
