package dashboard

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Text has a contrast of 4.5 to what it stands on, and what is needed to read a picture or to find
// a field 3 (WCAG 2.2, 1.4.3 and 1.4.11), in the light and in the dark.
func TestContrast(t *testing.T) {
	raw, err := assets.ReadFile("assets/style.css")
	if err != nil {
		t.Fatal(err)
	}
	light, dark, ok := strings.Cut(string(raw), "@media (prefers-color-scheme: dark)")
	dark, _, end := strings.Cut(dark, "\n}\n")
	if !ok || !end {
		t.Fatal("the style sheet has no dark colours")
	}
	for mode, css := range map[string]string{"light": light, "dark": dark} {
		colours := make(map[string]float64)
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			colours[m[1]] = luminance(m[2])
		}
		check := func(least float64, grounds []string, names ...string) {
			for _, name := range names {
				for _, ground := range grounds {
					a, ok := colours[name]
					b, there := colours[ground]
					if !ok || !there {
						t.Fatalf("%s: colour %s or %s is not there", mode, name, ground)
					}
					if c := (max(a, b) + 0.05) / (min(a, b) + 0.05); c < least {
						t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", mode, name, ground, c, least)
					}
				}
			}
		}
		check(4.5, []string{"paper", "surface"}, "ink", "soft", "accent", "bad", "good")
		check(4.5, []string{"track"}, "ink")
		check(4.5, []string{"accent"}, "on-accent")
		check(3, []string{"surface"}, "honey", "leaf-a", "leaf-b", "known", "control", "pages", "sites", "peers", "queue", "duplicates")
	}
}

// luminance is the relative luminance of a colour (WCAG 2.2).
func luminance(hex string) (y float64) {
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, _ := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		y += weight * c
	}
	return y
}
