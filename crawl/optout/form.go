package optout

import (
	"context"
	_ "embed" // page template
	"html/template"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

//go:embed form.html
var formText string

var formPage = template.Must(template.New("form").Parse(formText))

const (
	// maxForm bounds a posted form, in bytes.
	maxForm = 4 << 10
	// formBurst requests are served at once, and then one each formEvery, for all clients together, so
	// that no state per visitor is needed.
	formBurst = 40
	formEvery = 100 * time.Millisecond
	// checkBurst and checkEvery are the same limits for requests that check a site.
	checkBurst = 10
	checkEvery = 2 * time.Second
	// checkTime is the timeout of such a request.
	checkTime = 40 * time.Second
)

// Setter executes the action of a form: it checks the site's proof and updates the ring. The error
// is displayed to the user.
type Setter interface {
	// SetOptOut returns when the ring is updated, or an error that describes what the site lacks.
	SetOptOut(ctx context.Context, s Subject, a Action) error
}

// Form is the page on which site operators opt out, or withdraw an opt-out. It needs no script,
// stores nothing, and serves a bounded number of requests.
type Form struct {
	setter  Setter
	contact string
	pages   *rate.Limiter
	checks  *rate.Limiter
}

// NewForm returns the form of a peer. Contact is displayed on it; it may be empty.
func NewForm(setter Setter, contact string) *Form {
	return &Form{setter: setter, contact: contact, pages: rate.NewLimiter(rate.Every(formEvery), formBurst), checks: rate.NewLimiter(rate.Every(checkEvery), checkBurst)}
}

// page is the data of the template.
type page struct {
	Contact, Subject, Action, Token, WellKnown, TXT, Name string
	Error, Done                                           string
	Domain                                                bool
}

// ServeHTTP implements http.Handler.
func (f *Form) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	p := page{Contact: f.contact, Action: string(Out)}
	status := http.StatusOK
	switch {
	case !f.pages.Allow():
		head.Set("Retry-After", "5")
		status, p.Error = http.StatusTooManyRequests, "Too many requests. Please try again in a few seconds."
	case r.URL.Path != "/":
		status, p.Error = http.StatusNotFound, "Page not found. Only the form is available."
	case r.Method == http.MethodPost:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		status = f.post(r, &p)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		head.Set("Allow", "GET, HEAD, POST")
		status, p.Error = http.StatusMethodNotAllowed, "Method not allowed: use GET or POST."
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_ = formPage.Execute(w, &p) // write errors of a closed connection are irrelevant
	}
}

// post shows the required proof, or with check verifies it.
func (f *Form) post(r *http.Request, p *page) (status int) {
	if err := r.ParseForm(); err != nil {
		p.Error = "The form could not be read."
		return http.StatusBadRequest
	}
	kind := KindHost
	if r.PostForm.Get("kind") == string(KindDomain) {
		kind, p.Domain = KindDomain, true
	}
	p.Name = r.PostForm.Get("name")
	s, err := ParseSubject(string(kind) + " " + p.Name)
	if err != nil {
		p.Error = "Invalid site name: write it as in example.org."
		return http.StatusBadRequest
	}
	a, err := ParseAction(r.PostForm.Get("action"))
	if err != nil {
		p.Error = "Please choose an action."
		return http.StatusBadRequest
	}
	p.Name, p.Subject, p.Action, p.Token, p.WellKnown, p.TXT = s.Name, s.String(), string(a), Token(s, a), WellKnown, TXTName(s)
	if r.PostForm.Get("check") == "" {
		return http.StatusOK
	}
	if !f.checks.Allow() {
		p.Error = "Too many site checks are running. Please try again in a few seconds."
		return http.StatusTooManyRequests
	}
	ctx, cancel := context.WithTimeout(r.Context(), checkTime)
	defer cancel()
	if err := f.setter.SetOptOut(ctx, s, a); err != nil {
		p.Error = err.Error()
		return http.StatusConflict
	}
	p.Done = s.Name + " is no longer crawled. Leave the line in place while you want that: it is checked again at times."
	if a == Back {
		p.Done = s.Name + " may be crawled again. You may remove the line."
	}
	return http.StatusOK
}
