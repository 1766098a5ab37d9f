package traptest

import (
	"fmt"
	"slices"
	"strings"
)

// shop is modelled on web shops such as those of Magento: pages of products that differ in a name
// and a price, and buttons that are links.
func shop(scale int) Site {
	n := scaled(10_000, scale)
	cats := max(n/100, 4)
	m := newMaker("shop", 200, "/cart", "/help")
	category := func(c int) list {
		return list{path: fmt.Sprintf("/c/%d", c), mark: "?page=", n: (n - c + cats - 1) / cats, per: 24}
	}
	name := func(i int) string { return m.name(m.between(3, 8, "length", i), i) }
	price := func(i int) string {
		return fmt.Sprintf("%d.%02d EUR", m.between(2, 900, i), m.between(0, 99, "cents", i))
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		id, okay := number(r.query.Get("id")+r.query.Get("add"), n)
		switch {
		case r.path == "/":
			var pairs []string
			for c := range cats {
				pairs = append(pairs, category(c).path, m.name(1, "category", c))
			}
			return m.page("Welcome", m.text(60, "home"), links(pairs...))
		case r.is("product", "*"):
			i, okay := number(r.seg[1], n)
			if !okay {
				return notFound
			}
			return m.page(name(i), p("SKU "+fmt.Sprint(100_000+7*i)+" <b>"+price(i)+"</b>"), links(category(i%cats).path, "back",
				fmt.Sprintf("/cart/add?id=%d", i), "add to cart", fmt.Sprintf("/compare?add=%d", i), "compare", fmt.Sprintf("/wishlist/add?id=%d", i), "wishlist"))
		case r.is("c", "*"):
			c, okay := number(r.seg[1], cats)
			page, there := category(c).pageOf(r.query.Get("page"))
			if !okay || !there {
				return notFound
			}
			from, to, pager := category(c).items(page)
			var pairs []string
			for k := from; k < to; k++ {
				i := c + k*cats
				pairs = append(pairs, fmt.Sprintf("/product/%d", i), name(i)+" "+price(i))
			}
			return m.page(m.name(1, "category", c), links(pairs...), pager)
		case r.path == "/cart", r.path == "/cart/add" && okay:
			return m.page("Your cart", p("Your cart has 1 item."), links("/cart", "check out"))
		case r.path == "/compare" && okay:
			return m.page("Compare", p(fmt.Sprintf("You compare 1 product: SKU %d.", 100_000+7*id)))
		case r.path == "/wishlist/add" && okay:
			return m.page("Wishlist", p("Log in to keep a list of wishes."))
		case r.path == "/help":
			return m.page("Help", m.text(300, "help"))
		}
		return notFound
	}
	return Site{
		Name: "shop", What: "products with few words of their own in a large frame, and buttons that are links", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for c := range cats {
				if !category(c).each(yield) {
					return
				}
			}
			each(yield, n, "/product/%d")
		},
	}
}

// classifieds is modelled on portals of flats: the same offers in thousands of filtered lists.
func classifieds(scale int) Site {
	n := scaled(6000, scale)
	m := newMaker("classifieds", 300, "/search")
	areas := strings.Fields("north south east west center harbour hills")
	kinds := strings.Fields("flat house room")
	sorts := strings.Fields("price size new")
	all := list{path: "/offers", mark: "?page=", n: n, per: 30}
	values := func(i int) [3]string {
		return [3]string{fmt.Sprint(m.between(1, 4, "rooms", i)), areas[m.between(0, len(areas)-1, "area", i)], kinds[m.between(0, len(kinds)-1, "kind", i)]}
	}
	names := []string{"rooms", "area", "kind", "sort"}
	choices := [][]string{{"1", "2", "3", "4"}, areas, kinds, sorts}
	to := func(chosen []string) string {
		var parts []string
		for i, v := range chosen {
			if v != "" {
				parts = append(parts, names[i]+"="+v)
			}
		}
		return strings.TrimSuffix("/search?"+strings.Join(parts, "&"), "?")
	}
	offer := func(i int) string {
		v := values(i)
		return fmt.Sprintf("%s, %s rooms, %d m2, %s, %d EUR", v[2], v[0], m.between(20, 180, "size", i), v[1], m.between(300, 3000, "price", i))
	}
	found := func(chosen []string) Answer {
		var pairs, facets []string
		for i := 0; i < n && len(pairs) < 40; i++ {
			v := values((i*7919 + int(hash(chosen[3])%uint64(n))) % n)
			if slices.ContainsFunc([]int{0, 1, 2}, func(k int) bool { return chosen[k] != "" && chosen[k] != v[k] }) {
				continue
			}
			j := (i*7919 + int(hash(chosen[3])%uint64(n))) % n
			pairs = append(pairs, fmt.Sprintf("/offer/%d", j), offer(j))
		}
		for i, c := range choices {
			for _, v := range append([]string{""}, c...) {
				other := slices.Clone(chosen)
				other[i] = v
				facets = append(facets, to(other), names[i]+" "+v)
			}
		}
		return m.page("Search", links(facets...), links(pairs...))
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		switch {
		case r.path == "/":
			return m.page("Offers", m.text(60, "home"), links("/offers", "all offers", "/search", "search"))
		case r.path == "/offers":
			page, okay := all.pageOf(r.query.Get("page"))
			if !okay {
				return notFound
			}
			from, to, pager := all.items(page)
			var pairs []string
			for i := from; i < to; i++ {
				pairs = append(pairs, fmt.Sprintf("/offer/%d", i), offer(i))
			}
			return m.page("All offers", links(pairs...), pager)
		case r.path == "/search":
			chosen := make([]string, len(names))
			for i, name := range names {
				if chosen[i] = r.query.Get(name); chosen[i] != "" && !slices.Contains(choices[i], chosen[i]) {
					return notFound
				}
			}
			if to(chosen) != pathQuery {
				return notFound
			}
			return found(chosen)
		case r.is("offer", "*"):
			if i, okay := number(r.seg[1], n); okay {
				v := values(i)
				return m.page(offer(i), m.text(m.between(5, 40, "length", i), i), p(fmt.Sprint("Offer ", 30_000+i)), links(to([]string{"", v[1], "", ""}), "more in "+v[1]))
			}
		}
		return notFound
	}
	return Site{
		Name: "classifieds", What: "offers, and every combination of filters as a list of them", Start: "/", Get: get,
		Own: func(yield func(string) bool) { _ = all.each(yield) && each(yield, n, "/offer/%d") },
	}
}

// people is modelled on telephone books and registers of companies: a name, a street, a number.
func people(scale int) Site {
	n := scaled(8000, scale)
	m := newMaker("people", 250, "/help")
	surname := func(i int) string { return m.lang.sorted[i*len(m.lang.sorted)/n] }
	name := func(i int) string { return capital(surname(i)) + ", " + m.name(1, "first", i) }
	// The entries of a letter are those from first of it to first of the next.
	first := func(letter byte) int {
		for i := range n {
			if surname(i)[0] >= letter {
				return i
			}
		}
		return n
	}
	var firsts [27]int
	for k := range firsts {
		firsts[k] = first('a' + byte(k))
	}
	letter := func(k int) list {
		return list{path: "/letter/" + string(rune('a'+k)), mark: "?page=", n: firsts[k+1] - firsts[k], per: 50}
	}
	get := func(pathQuery string) Answer {
		r := parse(pathQuery)
		switch {
		case r.path == "/":
			var pairs []string
			for k := range 26 {
				if letter(k).n > 0 {
					pairs = append(pairs, letter(k).path, string(rune('A'+k)))
				}
			}
			return m.page("Directory", links(pairs...))
		case r.path == "/help":
			return m.page("Help", m.text(200, "help"))
		case r.is("letter", "*") && len(r.seg[1]) == 1 && r.seg[1][0] >= 'a' && r.seg[1][0] <= 'z':
			l := letter(int(r.seg[1][0] - 'a'))
			page, okay := l.pageOf(r.query.Get("page"))
			if !okay || l.n == 0 {
				return notFound
			}
			from, to, pager := l.items(page)
			var pairs []string
			for i := from; i < to; i++ {
				at := firsts[r.seg[1][0]-'a'] + i
				pairs = append(pairs, fmt.Sprintf("/entry/%d", at), name(at))
			}
			return m.page("Letter "+r.seg[1], links(pairs...), pager)
		case r.is("entry", "*"):
			if i, okay := number(r.seg[1], n); okay {
				return m.page(name(i), p(fmt.Sprintf("%sstreet %d", m.name(1, "street", i), m.between(1, 200, "house", i))), p(fmt.Sprintf("Telephone 0%d", m.between(1e8, 1e9, "tel", i))),
					links("/letter/"+surname(i)[:1], "back"))
			}
		}
		return notFound
	}
	return Site{
		Name: "people", What: "entries of a name, a street and a number in a large frame", Start: "/", Get: get,
		Own: func(yield func(string) bool) {
			for k := range 26 {
				if letter(k).n > 0 && !letter(k).each(yield) {
					return
				}
			}
			each(yield, n, "/entry/%d")
		},
	}
}
