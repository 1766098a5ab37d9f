package traptest

import (
	"fmt"
	"strings"
	"time"
)

// gallery is modelled on albums of photographs: a title of a word or three, and what the camera
// wrote.
func gallery(scale int) Site {
	n := scaled(6000, scale)
	m := newMaker("gallery", 200)
	albums := list{path: "/albums", mark: "?page=", n: n, per: 40}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		page, okay := albums.pageOf(r.query.Get("page"))
		switch {
		case r.path == "/":
			return m.page("Photographs", links("/albums", "albums"))
		case r.path == "/albums" && okay:
			from, to, pager := albums.items(page)
			var parts []string
			for i := from; i < to; i++ {
				parts = append(parts, a(fmt.Sprintf("/photo/%d", i), "photo"))
			}
			return m.page(fmt.Sprint("Album ", page), append(parts, pager)...)
		case r.is("photo", "*"):
			if i, okay := number(r.seg[1], n); okay {
				camera := fmt.Sprintf("Canon EOS %dD, f/%d.%d, 1/%d s, ISO %d", m.between(5, 9, "model", i), m.between(1, 16, "f", i), m.between(0, 9, "f2", i),
					20*m.between(1, 60, "s", i), 100<<m.between(0, 6, "iso", i))
				return m.page(m.name(m.between(1, 3, "length", i), i), p(camera), chain("/photo/%d", i, n))
			}
		}
		return notFound
	}
	return Site{
		Name: "gallery", What: "photographs with a title of a word or three", Start: "/", Get: get,
		Own: func(yield func(string) bool) { _ = albums.each(yield) && each(yield, n, "/photo/%d") },
	}
}

// events is modelled on the calendars of associations: most days say nothing, and it ends at both
// sides.
func events(scale int) Site {
	const layout, first = "2006-01-02", 2005
	years := max(22/scale, 1)
	m := newMaker("events", 250)
	begin, end := time.Date(first, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(first+years, 1, 1, 0, 0, 0, 0, time.UTC)
	count := func(day string) int { return max(0, m.between(-4, 2, "events", day)) }
	happens := func(day string) string {
		var b strings.Builder
		for k := range count(day) {
			b.WriteString("<li>" + m.name(m.between(3, 8, "length", day, k), day, k))
		}
		return b.String()
	}
	within := func(t time.Time) bool { return !t.Before(begin) && t.Before(end) }
	neighbours := func(kind, layout string, before, after time.Time) string {
		var s strings.Builder
		for k, t := range []time.Time{before, after} {
			if within(t) {
				s.WriteString(a(kind+t.Format(layout), [2]string{"previous", "next"}[k]) + " ")
			}
		}
		return p(s.String())
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		if r.path == "/" {
			return m.page("Calendar", links("/month/"+begin.Format("2006-01"), "first month", "/month/"+end.AddDate(0, 0, -1).Format("2006-01"), "last month"))
		}
		if r.is("day", "*") {
			if t, err := time.Parse(layout, r.seg[1]); err == nil && within(t) {
				return m.page(t.Format("Monday 2 January 2006"), "<ul>"+happens(r.seg[1])+"</ul>", neighbours("/day/", layout, t.AddDate(0, 0, -1), t.AddDate(0, 0, 1)))
			}
		}
		if r.is("month", "*") {
			if t, err := time.Parse("2006-01", r.seg[1]); err == nil && within(t) {
				var parts []string
				for d := t; d.Month() == t.Month(); d = d.AddDate(0, 0, 1) {
					day := d.Format(layout)
					parts = append(parts, a("/day/"+day, fmt.Sprint(d.Day()))+happens(day))
				}
				return m.page(t.Format("January 2006"), append(parts, neighbours("/month/", "2006-01", t.AddDate(0, -1, 0), t.AddDate(0, 1, 0)))...)
			}
		}
		return notFound
	}
	return Site{
		Name: "events", What: "a calendar with an end at both sides, most days of which say nothing", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for t := begin; t.Before(end); t = t.AddDate(0, 0, 1) {
				if t.Day() == 1 && !yield("/month/"+t.Format("2006-01")) || count(t.Format(layout)) > 0 && !yield("/day/"+t.Format(layout)) {
					return
				}
			}
		},
	}
}

// stats is modelled on the sites of weather services and statistical offices: the same words on
// each page, and other numbers.
func stats(scale int) Site {
	n := scaled(4000, scale)
	m := newMaker("stats", 200, "/stations")
	all := list{path: "/stations", mark: "?page=", n: n, per: 50}
	columns := m.name(6, "columns")
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		page, okay := all.pageOf(r.query.Get("page"))
		switch {
		case r.path == "/":
			return m.page("Figures", m.text(50, "home"), links("/stations", "all stations"))
		case r.path == "/stations" && okay:
			from, to, pager := all.items(page)
			var pairs []string
			for i := from; i < to; i++ {
				pairs = append(pairs, fmt.Sprintf("/station/%d", i), fmt.Sprint(10_000+i))
			}
			return m.page("All stations", links(pairs...), pager)
		case r.is("station", "*"):
			if i, okay := number(r.seg[1], n); okay {
				var b strings.Builder
				rng := random(m.site, i)
				for month := range 12 {
					b.WriteString("<tr><td>" + time.Month(month+1).String())
					for range 6 {
						fmt.Fprintf(&b, "<td>%d.%d", rng.IntN(400), rng.IntN(10))
					}
				}
				return m.page(fmt.Sprint("Station ", 10_000+i), "<table><tr><th>"+strings.ReplaceAll(columns, " ", "<th>")+b.String()+"</table>", chain("/station/%d", i, n))
			}
		}
		return notFound
	}
	return Site{
		Name: "stats", What: "tables that differ in their numbers alone", Start: "/", Get: get,
		Own: func(yield func(string) bool) { _ = all.each(yield) && each(yield, n, "/station/%d") },
	}
}

// tracks is modelled on podcasts and on comics: each page leads to the next one alone.
func tracks(scale int) Site {
	n := scaled(3000, scale)
	m := newMaker("tracks", 200)
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		if r.path == "/" {
			return m.page("Tracks", a("/track/0", "first track"))
		}
		if i, okay := number(r.seg[len(r.seg)-1], n); okay && r.is("track", "*") {
			next := ""
			if i+1 < n {
				next = a(fmt.Sprintf("/track/%d", i+1), "next")
			}
			return m.page(m.name(5, i), next)
		}
		return notFound
	}
	return Site{
		Name: "tracks", What: "a long chain of pages of five words", Start: "/", Get: get,
		Own: func(yield func(string) bool) { each(yield, n, "/track/%d") },
	}
}
