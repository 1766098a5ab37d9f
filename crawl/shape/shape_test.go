package shape

import "testing"

func TestOf(t *testing.T) {
	for _, tt := range []struct{ url, want string }{
		{"http://a.example/", "/"},
		{"http://a.example/cal/2024/05/31", "/cal/#/#/#"},
		{"http://a.example/s/9f86d081884c7d65/page12.html", "/s/~/page#.html"},
		{"http://a.example/p;jsessionid=A1B2C3D4E5F6", "/p;jsessionid=~"},
		{"http://a.example/list?size=3&color=red", "/list?color&size"},
		{"http://a.example/list?color=blue&size=4&size=5", "/list?color&size"},
		{"http://a.example/a/b/a/c/b/a", "/a/b/c"},
		{"http://a.example/2024-05-31/report", "/#-#-#/report"},
		{"http://a.example/library/os.path.html", "/library/os.path.html"},
	} {
		if got := Of(tt.url); got != tt.want {
			t.Errorf("%s has the shape %s, want %s", tt.url, got, tt.want)
		}
	}
}
