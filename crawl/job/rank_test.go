package job

import "testing"

// TestRank: what is named first goes before all else, then depth or credit decides; no rank is 0
// where credit does, as that stands for the depth.
func TestRank(t *testing.T) {
	first, err := NewFilters([]string{"a.example/news/"})
	if err != nil {
		t.Fatal(err)
	}
	news, old := "http://a.example/news/1", "http://a.example/old"
	ordered := func(s *Spec, what string, ranks ...uint32) {
		t.Helper()
		for i := 1; i < len(ranks); i++ {
			if ranks[i-1] >= ranks[i] {
				t.Errorf("%s, order %v: ranks %v", what, s.Order, ranks)
			}
		}
	}
	breadth := &Spec{first: first}
	ordered(breadth, "first", breadth.Rank(news, 0, 9), breadth.Rank(news, 7, 0), breadth.Rank(news, 1<<31, 0), breadth.Rank(old, 0, 9), breadth.Rank(old, 1, 0), breadth.Rank(old, 1<<31, 0))
	links := &Spec{first: first, Order: ByLinks}
	ordered(links, "first", 0, links.Rank(news, 9, 255), links.Rank(news, 0, 0), links.Rank(old, 9, 255), links.Rank(old, 9, 3), links.Rank(old, 0, 2))
	if (&Spec{}).Ordered() || !breadth.Ordered() || !links.Ordered() {
		t.Error("which jobs have an order of their own")
	}
	for c := range Credit(255) {
		if got := CreditOf(c.Cash()); got != c && got != c-1 { // rounded
			t.Fatalf("credit %d is a cash of %v, which is credit %d", c, c.Cash(), got)
		}
	}
	if CreditOf(0.1) != 0 || CreditOf(1) != 0 || CreditOf(2) != 2 || CreditOf(1e300) != 255 {
		t.Error("credit of little and of much cash")
	}
	for _, name := range orders {
		if o, err := OrderOf(name); err != nil || o.String() != name {
			t.Errorf("order %q is %v, %v", name, o, err)
		}
	}
	if _, err := OrderOf("depth"); err == nil {
		t.Error("an unknown order is read")
	}
}
