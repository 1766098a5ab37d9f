package traptest

import (
	"fmt"
	"html"
	"math/bits"
	"strconv"
	"strings"
)

// files is a tree of n files, twelve a folder, twelve folders a folder above.
type files struct {
	m   *maker
	n   int
	ext string
}

func (f files) top(i int) string    { return f.m.lang.nameOf(5000 + i/144) }
func (f files) folder(i int) string { return f.top(i) + "/" + f.m.lang.nameOf(4000+i/12%1000) }
func (f files) file(i int) string   { return f.folder(i) + "/" + f.m.lang.nameOf(i) + f.ext }

// find finds what a path in the tree names: the first file below it, and how many segments it has.
func (f files) find(seg []string) (i, depth int, okay bool) {
	path := strings.Join(seg, "/")
	switch len(seg) {
	case 0:
		return 0, 0, true
	case 1:
		for i := 0; i < f.n; i += 144 {
			if f.top(i) == path {
				return i, 1, true
			}
		}
	case 2:
		for i := 0; i < f.n; i += 12 {
			if f.folder(i) == path {
				return i, 2, true
			}
		}
	case 3:
		i, okay := f.m.lang.numberOf(strings.TrimSuffix(seg[2], f.ext), f.n)
		return i, 3, okay && f.file(i) == path
	}
	return 0, 0, false
}

// below are the paths in a folder, which find has found.
func (f files) below(i, depth int) (paths []string) {
	switch depth {
	case 0:
		for j := 0; j < f.n; j += 144 {
			paths = append(paths, f.top(j))
		}
	case 1:
		for j := i; j < min(i+144, f.n); j += 12 {
			paths = append(paths, f.folder(j))
		}
	case 2:
		for j := i; j < min(i+12, f.n); j++ {
			paths = append(paths, f.file(j))
		}
	}
	return paths
}

// folders yields all folders but the root.
func (f files) folders(yield func(string) bool) bool {
	for i := 0; i < f.n; i += 12 {
		if i%144 == 0 && !yield(f.top(i)) || !yield(f.folder(i)) {
			return false
		}
	}
	return true
}

// lines are the lines of file i.
func (f files) lines(i int) (lines []string) {
	rng := random(f.m.site, "file", i)
	for range f.m.between(4, 40, "lines", i) {
		lines = append(lines, f.m.lang.text(rng, 2+rng.IntN(7)))
	}
	return lines
}

// digest is a hash as version control writes it.
func digest(parts ...any) string { return fmt.Sprintf("%016x", hash(parts...)) }

// code is modelled on the browsers of GitHub and Gitea: a file as text, with who wrote each line,
// raw, and its history. No page leads to another file.
func code(scale int) Site {
	f := files{m: newMaker("code", 150), n: min(scaled(2900, scale), 4000), ext: ".src"}
	m := f.m
	blame := func(i int) string {
		var b strings.Builder
		for k, line := range f.lines(i) {
			c := m.between(0, 3, "commit", i, k)
			fmt.Fprintf(&b, "%s %s %s\n", digest(m.site, i, c)[:8], m.name(1, "author", c), line)
		}
		return b.String()
	}
	commits := func(i int) string {
		var b strings.Builder
		for c := range m.between(1, 4, "commits", i) {
			fmt.Fprintf(&b, "<li>%s %s", digest(m.site, i, c)[:8], m.name(m.between(3, 8, "message", i, c), "message", i, c))
		}
		return b.String()
	}
	tree := func(i, depth int) Answer {
		var pairs []string
		kind := "/tree/"
		if depth == 2 {
			kind = "/blob/"
		}
		for _, path := range f.below(i, depth) {
			pairs = append(pairs, kind+path, path[strings.LastIndexByte(path, '/')+1:])
		}
		return m.page([]string{"Files", f.top(i), f.folder(i)}[depth], links(pairs...))
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		if r.path == "/" {
			return tree(0, 0)
		}
		i, depth, okay := f.find(r.seg[1:])
		if !okay || depth == 0 || (r.seg[0] == "tree") != (depth < 3) {
			return notFound
		}
		path := f.file(i)
		switch r.seg[0] {
		case "tree":
			return tree(i, depth)
		case "blob":
			return m.page(path, "<pre>"+html.EscapeString(strings.Join(f.lines(i), "\n"))+"</pre>", links("/blame/"+path, "blame", "/raw/"+path, "raw", "/commits/"+path, "history"))
		case "blame":
			return m.page(path, "<pre>"+html.EscapeString(blame(i))+"</pre>", links("/blob/"+path, "text"))
		case "raw":
			return ok(textType, strings.Join(f.lines(i), "\n")+"\n")
		case "commits":
			return m.page("History of "+path, "<ul>"+commits(i)+"</ul>", links("/blob/"+path, "text"))
		}
		return notFound
	}
	return Site{
		Name: "code", What: "files as text, by line and author, raw and with their history, without links between them", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			if !f.folders(func(path string) bool { return yield("/tree/" + path) }) {
				return
			}
			for i := range f.n {
				for _, kind := range []string{"/blob/", "/blame/", "/raw/", "/commits/"} {
					if !yield(kind + f.file(i)) {
						return
					}
				}
			}
		},
	}
}

// directory is modelled on the listings of Apache: each folder in eight orders, and files of text.
func directory(scale int) Site {
	f := files{m: newMaker("directory", 0), n: scaled(3000, scale), ext: ".txt"}
	orders := strings.Fields("C=N;O=D C=N;O=A C=M;O=A C=M;O=D C=S;O=A C=S;O=D C=D;O=A C=D;O=D")
	listing := func(r request, i, depth int) Answer {
		var b strings.Builder
		for k, o := range orders {
			b.WriteString(a(r.path+"?"+o, strings.Fields("Name Name Modified Modified Size Size Description Description")[k]) + " ")
		}
		if depth > 0 {
			b.WriteString("\n" + a(r.path[:strings.LastIndexByte(strings.TrimSuffix(r.path, "/"), '/')+1], "Parent Directory"))
		}
		below := f.below(i, depth)
		for k := range below {
			path := below[k]
			if strings.HasSuffix(r.raw, "D") {
				path = below[len(below)-1-k]
			}
			if depth < 2 {
				path += "/"
			}
			name := path[strings.LastIndexByte(strings.TrimSuffix(path, "/"), '/')+1:]
			fmt.Fprintf(&b, "\n%s  2019-0%d-1%d 10:2%d  %dK", a("/"+path, name), hash(path)%9+1, hash(path)%7, hash(path)%8, hash(path)%90+1)
		}
		title := "Index of " + r.path
		return ok(htmlType, "<!DOCTYPE html>\n<html><head><title>"+title+"</title></head><body>\n<h1>"+title+"</h1><pre>"+b.String()+"</pre>\n<address>Apache Server</address></body></html>\n")
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		if r.path == "/" {
			r.seg = nil
		}
		i, depth, okay := f.find(r.seg)
		switch {
		case !okay, strings.HasSuffix(r.path, "/") != (depth < 3), r.raw != "" && !strings.Contains(" "+strings.Join(orders, " ")+" ", " "+r.raw+" "):
			return notFound
		case depth == 3:
			return ok(textType, strings.Join(f.lines(i), "\n")+"\n")
		}
		return listing(r, i, depth)
	}
	return Site{
		Name: "directory", What: "listings of folders in eight orders each, and files of text", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			if !f.folders(func(path string) bool { return yield("/" + path + "/") }) {
				return
			}
			for i := range f.n {
				if !yield("/" + f.file(i)) {
					return
				}
			}
		},
	}
}

// registry is modelled on registries of packages: a page for each version, which differs from the
// others by its number and a line of changes.
func registry(scale int) Site {
	n := scaled(600, scale)
	m := newMaker("registry", 250)
	all := list{path: "/packages", mark: "?page=", n: n, per: 50}
	versions := func(i int) int { return m.between(3, 20, "versions", i) }
	version := func(k int) string { return fmt.Sprintf("%d.%d.%d", k/10, k/3%4, k%3) }
	at := func(i, k int) string { return "/package/" + m.lang.nameOf(i) + "/v/" + fmt.Sprint(k) }
	show := func(i, k int) Answer {
		var pairs []string
		for v := range versions(i) {
			pairs = append(pairs, at(i, v), version(v))
		}
		return m.page(m.lang.nameOf(i)+" "+version(k), m.text(m.between(40, 200, "words", i), i), p("Changes: "+m.name(5, "changes", i, k)), links(pairs...))
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		switch {
		case r.path == "/":
			return m.page("Packages", m.text(50, "home"), links("/packages", "all packages"))
		case r.path == "/packages":
			page, okay := all.pageOf(r.query.Get("page"))
			if !okay {
				return notFound
			}
			from, to, pager := all.items(page)
			var pairs []string
			for i := from; i < to; i++ {
				pairs = append(pairs, "/package/"+m.lang.nameOf(i), m.lang.nameOf(i))
			}
			return m.page("All packages", links(pairs...), pager)
		case r.is("package", "*") || r.is("package", "*", "v", "*"):
			i, okay := m.lang.numberOf(r.seg[1], n)
			k := versions(i) - 1
			if okay && len(r.seg) == 4 {
				k, okay = number(r.seg[3], versions(i))
			}
			if okay {
				return show(i, k)
			}
		}
		return notFound
	}
	return Site{
		Name: "registry", What: "packages, with a page for each version that says almost the same", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			if !all.each(yield) {
				return
			}
			for i := range n {
				if !yield("/package/" + m.lang.nameOf(i)) {
					return
				}
				for k := range versions(i) {
					if !yield(at(i, k)) {
						return
					}
				}
			}
		},
	}
}

// cgit is modelled on cgit: the log in pages, for each branch as well, and commits with their
// changes, as a page and as text.
func cgit(scale int) Site {
	n := scaled(4000, scale)
	m := newMaker("cgit", 150)
	branches := []string{"", "next", "maint"}
	const per = 50
	// An id hides the number of its commit: odd numbers have an inverse modulo 2^32.
	const factor = 0x9e3779b1
	inverse := uint32(1)
	for range bits.UintSize {
		inverse *= 2 - factor*inverse
	}
	id := func(i int) string {
		return fmt.Sprintf("%08x", uint32(i+1)*factor) + digest(m.site, i) + digest(i)[:16]
	}
	numberOf := func(s string) (int, bool) {
		if len(s) != 40 {
			return 0, false
		}
		v, err := strconv.ParseUint(s[:8], 16, 32)
		i := int(uint32(v)*inverse) - 1
		return i, err == nil && i >= 0 && i < n && id(i) == s
	}
	to := func(page, branch, rest string) string {
		if branch != "" {
			rest = strings.TrimSuffix("h="+branch+"&"+rest, "&")
		}
		return strings.TrimSuffix("/repo/"+page+"/?"+rest, "?")
	}
	message := func(i int) string { return m.name(m.between(3, 9, "message", i), i) }
	diff := func(i int) string {
		var b strings.Builder
		rng := random(m.site, "diff", i)
		for range m.between(2, 25, "diff", i) {
			b.WriteString("+-"[rng.IntN(2):][:1] + m.lang.text(rng, 2+rng.IntN(7)) + "\n")
		}
		return b.String()
	}
	log := func(branch string, ofs int) Answer {
		var pairs []string
		for i := ofs; i < min(ofs+per, n); i++ {
			pairs = append(pairs, to("commit", branch, "id="+id(i)), message(i))
		}
		for _, o := range []int{ofs - per, ofs + per} {
			if o > 0 && o < n {
				pairs = append(pairs, to("log", branch, fmt.Sprint("ofs=", o)), "other page")
			}
		}
		return m.page("Log", links(pairs...))
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		branch := r.query.Get("h")
		if branch != "" && !strings.Contains(" next maint ", " "+branch+" ") {
			return notFound
		}
		switch {
		case r.path == "/":
			var pairs []string
			for _, b := range branches {
				pairs = append(pairs, to("log", b, ""), "log "+b)
			}
			return m.page("Repository", m.text(60, "about"), links(pairs...))
		case r.path == "/repo/log/":
			ofs, okay := number(r.query.Get("ofs"), n)
			if r.query.Get("ofs") == "" || okay && ofs > 0 && ofs%per == 0 {
				return log(branch, ofs)
			}
		case r.path == "/repo/commit/" || r.path == "/repo/patch/":
			i, okay := numberOf(r.query.Get("id"))
			if !okay {
				return notFound
			}
			if r.path == "/repo/patch/" {
				return ok(textType, "From "+id(i)+"\nSubject: "+message(i)+"\n\n"+diff(i))
			}
			pairs := []string{to("patch", "", "id="+id(i)), "patch"}
			if i+1 < n {
				pairs = append(pairs, to("commit", branch, "id="+id(i+1)), "parent "+id(i+1))
			}
			return m.page(message(i), p("commit "+id(i)+" "+m.name(2, "author", m.between(0, 40, "author", i))), "<pre>"+diff(i)+"</pre>", links(pairs...))
		}
		return notFound
	}
	return Site{
		Name: "cgit", What: "commits with their changes, the same ones in each of three branches", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			if !yield("/repo/log/") {
				return
			}
			for ofs := per; ofs < n; ofs += per {
				if !yield(to("log", "", fmt.Sprint("ofs=", ofs))) {
					return
				}
			}
			for i := range n {
				if !yield(to("commit", "", "id="+id(i))) {
					return
				}
			}
		},
	}
}
