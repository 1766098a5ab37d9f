package kv

import "testing"

func TestPrefixEnd(t *testing.T) {
	for _, row := range []struct{ prefix, want string }{
		{"a", "b"}, {"ab", "ac"}, {"\x01\xff\xff", "\x02"}, {"a\xfe", "a\xff"},
	} {
		if got := PrefixEnd([]byte(row.prefix)); string(got) != row.want {
			t.Errorf("%q: %q, want %q", row.prefix, got, row.want)
		}
	}
	for _, prefix := range []string{"", "\xff", "\xff\xff"} {
		if got := PrefixEnd([]byte(prefix)); got != nil {
			t.Errorf("%q: %q, want none", prefix, got)
		}
	}
}
