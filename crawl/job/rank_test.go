package job

import "testing"

// TestRank: URLs that the job names first have lower ranks than all others, then depth decides.
func TestRank(t *testing.T) {
	first, err := NewFilters([]string{"a.example/news/"})
	if err != nil {
		t.Fatal(err)
	}
	s := &Spec{first: first}
	news, old := "http://a.example/news/1", "http://a.example/old"
	ranks := []uint32{s.Rank(news, 0), s.Rank(news, 7), s.Rank(news, 1<<31), s.Rank(old, 0), s.Rank(old, 1), s.Rank(old, 1<<31)}
	for i := 1; i < len(ranks); i++ {
		if ranks[i-1] >= ranks[i] {
			t.Errorf("ranks %v do not rise", ranks)
		}
	}
	if (&Spec{}).Ordered() || !s.Ordered() {
		t.Error("Ordered is not true of the job with --first alone")
	}
}
