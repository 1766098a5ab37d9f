package traptest

import (
	"fmt"
	"strings"
)

// tracker is modelled on Bugzilla and Mantis: short reports in a large form, each with a history
// that is almost empty, and with buttons.
func tracker(scale int) Site {
	n := scaled(8000, scale)
	m := newMaker("tracker", 300, "/bugs", "/help")
	bugs := list{path: "/bugs", mark: "?page=", n: n, per: 50}
	title := func(i int) string { return m.name(m.between(3, 8, "length", i), i) }
	bug := func(i int, side string) Answer {
		at := fmt.Sprintf("/bug/%d", i)
		switch side {
		case "":
			more := []string{at + "/history", "history", at + "/vote", "vote", at + "/edit", "edit"}
			if m.between(0, 4, "depends", i) == 0 {
				other := m.between(0, n-1, "on", i)
				more = append(more, fmt.Sprintf("/bug/%d", other), fmt.Sprint("depends on ", other))
			}
			state := [4]string{"new", "open", "fixed", "closed"}[m.between(0, 3, "state", i)]
			return m.page(fmt.Sprintf("Bug %d: %s", i, title(i)), p("State: "+state), m.text(m.between(7, 24, "words", i), i), links(more...))
		case "history":
			return m.page(fmt.Sprintf("Bug %d: history", i), p("No changes have been made to this bug."), links(at, "back"))
		case "vote":
			return m.page("Vote", p("You have 0 votes left."), links(at, "back"))
		case "edit":
			return m.login()
		}
		return notFound
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		if len(r.seg) > 1 && len(r.seg) < 4 && r.seg[0] == "bug" {
			if i, okay := number(r.seg[1], n); okay {
				return bug(i, strings.Join(r.seg[2:], ""))
			}
			return notFound
		}
		page, okay := bugs.pageOf(r.query.Get("page"))
		switch {
		case r.path == "/":
			return m.page("Bugs", m.text(60, "home"), links("/bugs", "all bugs"))
		case r.path == "/help":
			return m.page("Help", m.text(300, "help"))
		case r.path == "/bugs" && okay:
			from, to, pager := bugs.items(page)
			var pairs []string
			for i := from; i < to; i++ {
				pairs = append(pairs, fmt.Sprintf("/bug/%d", i), title(i))
			}
			return m.page("All bugs", links(pairs...), pager)
		}
		return notFound
	}
	return Site{
		Name: "tracker", What: "short reports in a large form, with almost empty pages beside each", Start: "/", Get: get,
		Own: func(yield func(string) bool) { _ = bugs.each(yield) && each(yield, n, "/bug/%d") },
	}
}

// forum is modelled on old phpBB: under each post three links of which each shows the login.
func forum(scale int) Site { return someForum("forum", scale, false) }

// forum302 is the same with redirects to a login that is told the way back.
func forum302(scale int) Site { return someForum("forum302", scale, true) }

func someForum(name string, scale int, redirects bool) Site {
	n := scaled(20_000, scale)
	const boards = 20
	m := newMaker(name, 120, "/rules")
	board := func(b int) list {
		return list{path: fmt.Sprintf("/board/%d", b), mark: "?page=", n: (n - b + boards - 1) / boards, per: 50}
	}
	posts := func(i int) int { return 1 + m.between(0, 2, "posts", i)/2 }
	title := func(i int) string { return m.name(m.between(3, 7, "length", i), i) }
	thread := func(i int) Answer {
		parts := []string{links(board(i%boards).path, "back")}
		for k := range posts(i) {
			post := fmt.Sprintf("/post/%d", 2*i+k)
			parts = append(parts, p("<b>"+m.name(1, "user", m.between(0, 500, "by", i, k))+"</b> wrote:"), m.text(m.between(10, 60, "words", i, k), i, k),
				links(post+"/quote", "quote", post+"/reply", "reply", post+"/report", "report"))
		}
		return m.page(title(i), parts...)
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		switch {
		case r.path == "/":
			var pairs []string
			for b := range boards {
				pairs = append(pairs, board(b).path, m.name(2, "board", b))
			}
			return m.page("Forum", links(pairs...))
		case r.path == "/rules":
			return m.page("Rules", m.text(300, "rules"))
		case r.path == "/login" && redirects:
			return m.login()
		case r.is("board", "*"):
			b, okay := number(r.seg[1], boards)
			page, there := board(b).pageOf(r.query.Get("page"))
			if !okay || !there {
				return notFound
			}
			from, to, pager := board(b).items(page)
			var pairs []string
			for k := from; k < to; k++ {
				pairs = append(pairs, fmt.Sprintf("/thread/%d", b+k*boards), title(b+k*boards))
			}
			return m.page(m.name(2, "board", b), links(pairs...), pager)
		case r.is("thread", "*"):
			if i, okay := number(r.seg[1], n); okay {
				return thread(i)
			}
		case r.is("post", "*", "*"):
			if i, okay := number(r.seg[1], 2*n); okay && i%2 < posts(i/2) && strings.Contains(" quote reply report ", " "+r.seg[2]+" ") {
				if redirects {
					return moved("/login?return=" + r.path)
				}
				return m.login()
			}
		}
		return notFound
	}
	return Site{
		Name: name, What: "threads, with three links under each post that all lead to the login", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for b := range boards {
				if !board(b).each(yield) {
					return
				}
			}
			each(yield, n, "/thread/%d")
		},
	}
}

// qa is modelled on the sites of Stack Exchange: questions, tags, and profiles that are almost
// empty.
func qa(scale int) Site {
	n, users, tags := scaled(5000, scale), scaled(2500, scale), 40
	m := newMaker("qa", 250, "/questions")
	all := list{path: "/questions", mark: "?page=", n: n, per: 30}
	tagged := func(t int) list {
		return list{path: "/tagged/" + m.lang.nameOf(t), mark: "?page=", n: (n - t + tags - 1) / tags, per: 30}
	}
	title := func(i int) string { return m.name(m.between(4, 10, "length", i), i) + "?" }
	question := func(i int) string { return fmt.Sprintf("/q/%d", i) }
	// The first questions are those of all users in turn, so that each is found.
	user := func(i, k int) (at, name string) {
		u := m.between(0, users-1, "user", i, k)
		if k == 0 {
			u = i % users
		}
		return fmt.Sprintf("/user/%d", u), m.name(1, "user", u) + fmt.Sprint(u%97)
	}
	items := func(heading string, l list, page int, item func(k int) int) Answer {
		from, to, pager := l.items(page)
		var pairs []string
		for k := from; k < to; k++ {
			pairs = append(pairs, question(item(k)), title(item(k)))
		}
		return m.page(heading, links(pairs...), pager)
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		switch {
		case r.path == "/":
			var pairs []string
			for t := range min(tags, n) {
				pairs = append(pairs, tagged(t).path, m.lang.nameOf(t))
			}
			return m.page("Questions and answers", links(pairs...))
		case r.path == "/questions":
			if page, okay := all.pageOf(r.query.Get("page")); okay {
				return items("All questions", all, page, func(k int) int { return k })
			}
		case r.is("tagged", "*"):
			t, okay := m.lang.numberOf(r.seg[1], min(tags, n))
			if page, there := tagged(t).pageOf(r.query.Get("page")); okay && there {
				return items("Questions tagged "+r.seg[1], tagged(t), page, func(k int) int { return t + k*tags })
			}
		case r.is("q", "*"):
			if i, okay := number(r.seg[1], n); okay {
				parts := []string{m.text(m.between(15, 80, "words", i), i)}
				for k := range 1 + m.between(0, 3, "answers", i) {
					at, name := user(i, k)
					parts = append(parts, p(a(at, name)), m.text(m.between(5, 50, "words", i, k), i, "answer", k))
				}
				return m.page(title(i), append(parts, links(tagged(i%tags).path, m.lang.nameOf(i%tags)))...)
			}
		case r.is("user", "*"):
			if u, okay := number(r.seg[1], users); okay {
				return m.page(m.name(1, "user", u)+fmt.Sprint(u%97), p(fmt.Sprintf("Reputation %d. Answers %d. Questions %d. Member for %d days.",
					m.between(1, 5000, "rep", u), m.between(0, 90, "a", u), m.between(0, 40, "q", u), m.between(1, 4000, "days", u))))
			}
		}
		return notFound
	}
	return Site{
		Name: "qa", What: "questions with short answers, and profiles of a name and some numbers", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for t := range min(tags, n) {
				if !tagged(t).each(yield) {
					return
				}
			}
			_ = all.each(yield) && each(yield, n, "/q/%d") && each(yield, min(users, n), "/user/%d")
		},
	}
}

// blog is modelled on WordPress: the posts again and again by tag, by month and in pages of five,
// and each of them once more for every comment.
func blog(scale int) Site {
	n, tags := scaled(2000, scale), 30
	m := newMaker("blog", 100, "/about")
	months := (n + 7) / 8 // eight posts a month
	month := func(k int) string { return fmt.Sprintf("/%d/%02d", 2000+k/12, 1+k%12) }
	front := list{path: "/", mark: "page/", n: n, per: 5}
	tagged := func(t int) list {
		return list{path: "/tag/" + m.lang.nameOf(2000+t), mark: "/page/", n: (n - t + tags - 1) / tags, per: 10}
	}
	title := func(i int) string { return m.name(m.between(2, 6, "length", i), i) }
	post := func(i int) string {
		return month(i/8) + "/" + m.lang.nameOf(i) + "-" + strings.ToLower(strings.ReplaceAll(title(i), " ", "-"))
	}
	excerpts := func(heading string, l list, page int, item func(k int) int) Answer {
		from, to, pager := l.items(page)
		var parts []string
		for k := from; k < to; k++ {
			i := item(k)
			parts = append(parts, "<h2>"+a(post(i), title(i))+"</h2>", m.text(30, i))
		}
		return m.page(heading, append(parts, pager)...)
	}
	whole := func(i int) Answer {
		parts := []string{m.text(30, i), m.text(m.between(60, 400, "words", i), i, "rest"), links(tagged(i%tags).path, m.lang.nameOf(2000+i%tags), month(i/8), "this month")}
		for k := range m.between(0, 4, "comments", i) {
			parts = append(parts, p("<b>"+m.name(1, "by", i, k)+"</b> says:"), m.text(m.between(5, 40, "comment", i, k), i, "comment", k),
				links(fmt.Sprintf("%s?replytocom=%d", post(i), 8*i+k), "reply"))
		}
		return m.page(title(i), parts...)
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		var y, mon int
		switch {
		case r.path == "/about":
			return m.page("About", m.text(100, "about"))
		case r.path == "/" || r.is("page", "*"):
			page, okay := front.pageOf(strings.TrimPrefix(strings.TrimPrefix(r.path, "/"), "page/"))
			if !okay {
				return notFound
			}
			a := excerpts("Blog", front, page, func(k int) int { return n - 1 - k })
			if page == 1 {
				var pairs []string
				for t := range min(tags, n) {
					pairs = append(pairs, tagged(t).path, m.lang.nameOf(2000+t))
				}
				for y := range (months + 11) / 12 {
					pairs = append(pairs, fmt.Sprintf("/%d", 2000+y), fmt.Sprint(2000+y))
				}
				a.Body = []byte(strings.Replace(string(a.Body), "<aside>", "<aside>"+links(pairs...), 1))
			}
			return a
		case r.is("tag", "*") || r.is("tag", "*", "page", "*"):
			t, okay := m.lang.numberOf(r.seg[1], 2000+tags)
			t -= 2000
			if !okay || t < 0 || t >= n {
				return notFound
			}
			if page, okay := tagged(t).pageOf(strings.Join(r.seg[min(3, len(r.seg)):], "")); okay {
				return excerpts("Tag "+r.seg[1], tagged(t), page, func(k int) int { return t + k*tags })
			}
		case len(r.seg) == 1:
			y, okay := number(r.seg[0], 2000+(months+11)/12)
			if !okay || y < 2000 {
				return notFound
			}
			var pairs []string
			for k := (y - 2000) * 12; k < min((y-2000)*12+12, months); k++ {
				pairs = append(pairs, month(k), month(k))
			}
			return m.page("Year "+r.seg[0], links(pairs...))
		case len(r.seg) == 2:
			_, _ = fmt.Sscanf(r.path, "/%d/%d", &y, &mon)
			k := (y-2000)*12 + mon - 1
			if k < 0 || k >= months || month(k) != r.path {
				return notFound
			}
			var parts []string
			for i := 8 * k; i < min(8*k+8, n); i++ {
				parts = append(parts, a(post(i), title(i))+"<br>")
			}
			return m.page("Posts of "+r.path[1:], parts...)
		case len(r.seg) == 3:
			first, _, _ := strings.Cut(r.seg[2], "-")
			if i, okay := m.lang.numberOf(first, n); okay && post(i) == r.path {
				if c := r.query.Get("replytocom"); c != "" {
					if id, okay := number(c, 8*n); !okay || id/8 != i || id%8 >= m.between(0, 4, "comments", i) {
						return notFound
					}
				}
				return whole(i)
			}
		}
		return notFound
	}
	return Site{
		Name: "blog", What: "posts, which come again by tag, by month, in pages and for every comment", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for t := range min(tags, n) {
				if !tagged(t).each(yield) {
					return
				}
			}
			for k := range months {
				if !yield(month(k)) {
					return
				}
			}
			for i := range n {
				if !yield(post(i)) {
					return
				}
			}
			front.each(yield)
		},
	}
}
