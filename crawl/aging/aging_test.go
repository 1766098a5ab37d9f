package aging

import "testing"

// TestBounded: what is used all the time stays, what is not goes, and the weight has its bound.
func TestBounded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		weight func(int) int
		each   int
	}{{"of one each", nil, 1}, {"heavy", func(int) int { return 10 }, 10}} {
		t.Run(tt.name, func(t *testing.T) {
			const most = 100
			m := New[int](most, tt.weight)
			for i := range 1000 {
				m.Set(i, -i)
				if v, ok := m.Get(0); !ok || v != 0 {
					t.Fatalf("forgot at %d what is in use", i)
				}
				if n := len(m.young) + len(m.old); n*tt.each > most {
					t.Fatalf("%d values of weight %d are kept, %d are allowed", n, tt.each, most)
				}
			}
			if _, ok := m.Get(1); ok {
				t.Error("something is kept that nobody used")
			}
			for range most {
				m.Set(5, 0)
			}
			if _, ok := m.Get(0); !ok {
				t.Error("a value that is set again counts more than once")
			}
			m.Remove(0)
			if _, ok := m.Get(0); ok {
				t.Error("removed, and there")
			}
		})
	}
}

// TestHeavierThanAll: a value that has no room beside others is kept alone.
func TestHeavierThanAll(t *testing.T) {
	m := New[string](10, func(n int) int { return n })
	m.Set("small", 1)
	m.Set("huge", 50)
	if v, ok := m.Get("huge"); !ok || v != 50 {
		t.Error("what was set last is not there")
	}
	m.Set("next", 1)
	m.Set("after", 5)
	if _, ok := m.Get("huge"); ok {
		t.Error("a value beyond the bound stays although nobody uses it")
	}
}
