package visits

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// maxCookieBytes bounds the cookies of a host. The oldest are dropped.
const maxCookieBytes = 16 << 10

// cookie is one that a host has set (RFC 6265, section 5.3). Name and value are sent back
// unchanged, as browsers do, even where the RFC does not allow them. Its domain is the host alone.
type cookie struct {
	name, value, path string
	secure            bool
	until             time.Time // zero: until the lease ends
}

// field returns the cookie in the form of a request.
func (c *cookie) field() string {
	if c.name == "" {
		return c.value
	}
	return c.name + "=" + c.value
}

// cookies are those that a host has set during its lease, the oldest first.
type cookies []cookie

// of returns the cookies to send with a request for u, as its Cookie field has them.
func (cs cookies) of(u *url.URL, now time.Time) (fields []string) {
	for _, c := range cs {
		under := strings.HasPrefix(u.Path, c.path) && (len(u.Path) == len(c.path) || strings.HasSuffix(c.path, "/") || u.Path[len(c.path)] == '/')
		if (under || c.path == "/") && (!c.secure || u.Scheme == "https") && (c.until.IsZero() || now.Before(c.until)) {
			fields = append(fields, c.field())
		}
	}
	return fields
}

// store adds the cookies of an answer to a request for u.
func (cs cookies) store(u *url.URL, header http.Header, now time.Time) cookies {
	for _, line := range header["Set-Cookie"] {
		c, own := readCookie(u, line, now)
		if !own || !httpguts.ValidHeaderFieldValue(c.field()) || c.field() == "" {
			continue
		}
		cs = slices.DeleteFunc(cs, func(o cookie) bool { return o.name == c.name && o.path == c.path })
		if c.until.IsZero() || now.Before(c.until) {
			cs = append(cs, c)
		}
	}
	size := 0
	for i, c := range slices.Backward(cs) {
		if size += len(c.field()) + len(c.path); size > maxCookieBytes {
			return slices.Delete(cs, 0, i+1)
		}
	}
	return cs
}

// readCookie reads a Set-Cookie field (RFC 6265, section 5.2). It returns false for the cookie of a
// domain that the host is not in.
func readCookie(u *url.URL, line string, now time.Time) (c cookie, own bool) {
	pair, attributes, _ := strings.Cut(line, ";")
	name, value, named := strings.Cut(pair, "=")
	if !named {
		name, value = "", pair
	}
	c = cookie{name: strings.TrimSpace(name), value: strings.TrimSpace(value), path: "/"}
	if i := strings.LastIndexByte(u.Path, '/'); i > 0 {
		c.path = u.Path[:i]
	}
	aged, own := false, true
	for a := range strings.SplitSeq(attributes, ";") {
		key, value, _ := strings.Cut(a, "=")
		switch value = strings.TrimSpace(value); strings.ToLower(strings.TrimSpace(key)) {
		case "path":
			if strings.HasPrefix(value, "/") {
				c.path = value
			}
		case "domain":
			domain := strings.ToLower(strings.TrimPrefix(value, "."))
			own = domain == "" || strings.HasSuffix("."+u.Hostname(), "."+domain)
		case "secure":
			c.secure = true
		case "max-age":
			if s, err := strconv.Atoi(value); err == nil {
				c.until, aged = now.Add(time.Duration(min(max(s, 0), 1<<30))*time.Second), true
			}
		case "expires":
			if at, err := http.ParseTime(strings.ReplaceAll(value, "-", " ")); err == nil && !aged {
				c.until = at
			}
		}
	}
	return c, own
}

// CookieField returns the Cookie field of a request for a URL of the visit's host; empty without
// cookies.
func (v *Visit) CookieField(rawURL string, now time.Time) string {
	u, err := url.Parse(rawURL)
	if err != nil || v.cfg.NoCookies {
		return ""
	}
	return strings.Join(v.host.cookies.of(u, now), "; ")
}

// StoreCookies stores the cookies of an answer to a request for a URL of the visit's host. It
// reports whether the answer is a redirect that hides the page until its cookie is sent: it set a
// cookie of a new name, or it set one and leads back to the URL.
func (v *Visit) StoreCookies(rawURL string, resp *fetch.Response, now time.Time) (hides bool) {
	u, err := url.Parse(rawURL)
	if err != nil || v.cfg.NoCookies || len(resp.Header["Set-Cookie"]) == 0 {
		return false
	}
	before := v.host.cookies.of(u, now)
	v.host.cookies = v.host.cookies.store(u, resp.Header, now)
	if resp.Location() == "" {
		return false
	}
	name := func(field string) string { name, _, _ := strings.Cut(field, "="); return name }
	back := leadsBack(rawURL, resp.Location())
	return slices.ContainsFunc(v.host.cookies.of(u, now), func(field string) bool {
		return !slices.ContainsFunc(before, func(b string) bool { return b == field || !back && name(b) == name(field) })
	})
}

// Again returns the result of a visit whose URL is requested once more, with the cookie that its
// redirect has set; nil if that was done.
func (v *Visit) Again(resp *fetch.Response, took time.Duration) Result {
	if v.Item.Repeated {
		return nil
	}
	v.Item.Repeated = true
	return again{took: took, addr: resp.Addr.Addr(), connect: resp.Connect}
}

// leadsBack reports whether a redirect of page leads to page itself, or to a URL that has page as
// the value of a query parameter.
func leadsBack(page, location string) bool {
	base, err := link.NewBase(page)
	if err != nil {
		return false
	}
	is := func(ref string) bool {
		target, err := base.AppendResolve(nil, []byte(ref))
		return err == nil && string(target) == page
	}
	if is(location) {
		return true
	}
	_, query, _ := strings.Cut(location, "?")
	for pair := range strings.SplitSeq(query, "&") {
		_, value, _ := strings.Cut(pair, "=")
		if value, err := url.QueryUnescape(value); err == nil && value != "" && is(value) {
			return true
		}
	}
	return false
}
