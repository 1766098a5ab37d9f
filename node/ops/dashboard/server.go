package dashboard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/glossary"
	"github.com/apoidea/apoidea/node/ops/words"
)

//go:embed assets
var assets embed.FS

const (
	// maxForm limits a posted form, maxHead the header of a request, in bytes.
	maxForm = 8 << 10
	maxHead = 16 << 10
	// maxConns limits connections; a browser uses at most six.
	maxConns = 64
)

// Server serves the page of one peer.
type Server struct {
	peer  Peer
	log   *slog.Logger
	guard *guard
	live  *live
	pages *template.Template
	// files are the script and the icon by name, which includes their hash.
	files map[string]file
	// policy is the content security policy.
	policy string
	// open reports that viewing needs no login: it listens on loopback, without login.
	open  bool
	login bool // viewing needs a login on loopback too
	addr  string
}

type file struct {
	kind string
	body []byte
}

// Config configures a Server.
type Config struct {
	// DataDir stores the secret of the cookies.
	DataDir string
	// Name distinguishes this peer from others on the machine.
	Name string
	// Login requires a login for viewing, on loopback too.
	Login bool
}

// Listen listens on HOST:PORT, the host an IP address or localhost. Preferred is the address of the
// last run, used for port 0 if it is free.
func Listen(ctx context.Context, addr, preferred string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || !control.IsAddress(addr) {
		return nil, control.Usage(fmt.Sprintf("dashboard %q: must be off, or an address and a port, such as 127.0.0.1:0", addr))
	}
	var lc net.ListenConfig
	if last, _, err := net.SplitHostPort(preferred); err == nil && port == "0" && last == host {
		if ln, err := lc.Listen(ctx, "tcp", preferred); err == nil {
			return ln, nil
		}
	}
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return ln, nil
}

// New returns a server for the page of a peer; Serve runs it.
func New(cfg Config, peer Peer, log *slog.Logger) (*Server, error) {
	secret, err := readSecret(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	s := &Server{peer: peer, log: log, guard: newGuard(secret, cfg.Name), live: newLive(peer), files: make(map[string]file), login: cfg.Login}
	if err := s.load(); err != nil {
		return nil, err
	}
	return s, nil
}

// load prepares the embedded files.
func (s *Server) load() error {
	names := make(map[string]string)
	for name, kind := range map[string]string{"page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		body, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return fmt.Errorf("dashboard: %w", err)
		}
		path := fmt.Sprintf("/%x/%s", sha256.Sum256(body), name)
		names[name] = path
		s.files[path] = file{kind, body}
	}
	style, err := assets.ReadFile("assets/style.css")
	if err != nil {
		return fmt.Errorf("dashboard: %w", err)
	}
	hash := sha256.Sum256(style)
	s.policy = fmt.Sprintf(contentPolicy, base64.StdEncoding.EncodeToString(hash[:]))
	s.pages, err = template.New("").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(style) }, // our own file
		"asset": func(name string) string { return names[name] },
		"short": words.Short, "number": words.Thousands, "size": words.Bytes, "ms": rttText,
		"span":     func(s float64) string { return spanText(time.Duration(s * float64(time.Second))) },
		"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"milli":    func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") },
		"clock":    func(t time.Time) string { return t.Local().Format(time.TimeOnly) },
		"until":    func(t time.Time) string { return untilText(t, time.Now()) },
		"sentence": capital, "ringword": control.RingWord,
		"glossary": func() []glossary.Word { return glossary.Words },
		"percent": func(share float64) string {
			if share == 0 {
				return "–"
			}
			return fmt.Sprintf("%.1f %%", 100*share)
		},
		"called": func(id string) control.PeerLine { return control.PeerLine{Peer: id, Name: s.peer.PeerName(id)} },
	}).ParseFS(assets, "assets/page.html")
	if err != nil {
		return fmt.Errorf("dashboard: %w", err)
	}
	return nil
}

// Serve records the history and serves ln until ctx ends, then waits briefly for running requests.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	s.addr = ln.Addr().String()
	at, err := netip.ParseAddrPort(s.addr)
	s.open = err == nil && at.Addr().IsLoopback() && !s.login
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: maxHead}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.live.run(ctx) })
	defer wg.Wait()
	defer cancel()
	return control.ServeHTTP(ctx, "dashboard", netutil.LimitListener(ln, maxConns), srv, s.log)
}

// Link returns a one-time login link, valid for ticketTime.
func (s *Server) Link(base string) string { return base + "login?ticket=" + s.guard.ticket(time.Now()) }

// Handler returns the handler of the page.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.seen(s.show))
	mux.HandleFunc("GET /live", s.seen(s.follow))
	mux.HandleFunc("GET /words", s.seen(s.words))
	mux.HandleFunc("GET /login", s.logIn)
	mux.HandleFunc("POST /pause", s.action(s.pause))
	mux.HandleFunc("POST /resume", s.action(s.resume))
	mux.HandleFunc("POST /limits", s.action(s.setLimits))
	mux.HandleFunc("POST /job", s.action(s.post))
	mux.HandleFunc("POST /job/{id}", s.action(s.setJob))
	mux.HandleFunc("GET /{hash}/{name}", s.asset)
	return careful(s.policy, byAddress(http.NewCrossOriginProtection().Handler(mux)))
}

func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	f, ok := s.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Cache-Control", "max-age=31536000, immutable") // its name contains its hash
	_, _ = w.Write(f.body)
}

func (s *Server) mayAct(r *http.Request) bool { return s.guard.knows(r) }

// seen authorizes viewing: every browser on loopback without login, otherwise logged-in browsers.
func (s *Server) seen(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.open && !s.mayAct(r) {
			http.Error(w, "open the link that `apoidea dashboard` prints", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

// logIn exchanges a ticket for a cookie. Its response does not distinguish a used ticket from an
// invalid one, and the browser sends no referrer.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	if !s.guard.redeem(r.URL.Query().Get("ticket"), time.Now()) {
		http.Error(w, "this link was used or has expired; run `apoidea dashboard` for a new one", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.guard.cookie, Value: s.guard.session, Path: "/", MaxAge: int(loginTime.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// sayings are the messages after an action, by key in the URL: never text from the browser.
var sayings = map[string]string{
	"paused": "Paused.", "resumed": "Resumed.", "limited": "Limits set.", "same": "No change.",
	"posted": "Job posted.", "job-pause": "Job paused.", "job-resume": "Job resumed.", "job-cancel": "Job canceled.",
}

func (s *Server) show(w http.ResponseWriter, r *http.Request) {
	s.page(w, r, http.StatusOK, sayings[r.URL.Query().Get("said")], false)
}

// words serves the glossary.
func (s *Server) words(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = s.pages.ExecuteTemplate(w, "words", nil) // the browser may be gone
}

func (s *Server) page(w http.ResponseWriter, r *http.Request, status int, said string, bad bool) {
	m, err := s.live.model(r.Context(), fresh)
	if err != nil {
		http.Error(w, "the peer did not respond: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	p := m.page(s.mayAct(r), s.guard.form)
	p.Said, p.SaidBad = said, bad
	for i := range p.Settings { // keep rejected values for correction
		if v, ok := r.PostForm[p.Settings[i].Key]; ok && bad {
			p.Settings[i].Value, p.Correct = v[0], true
		}
	}
	var b bytes.Buffer
	if err := s.pages.ExecuteTemplate(&b, "page", p); err != nil {
		s.log.Warn("dashboard page not rendered", "err", err)
		http.Error(w, "the page could not be rendered", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

// part is a part of the page with its element ID.
type part struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
}

// partNames are the parts that are sent again when they change.
var partNames = []string{"who", "state", "controls", "own", "jobs", "walk", "ring", "neighbours", "totals", "log", "charts", "lately", "failed", "used", "settings", "hosts", "refused"}

func (s *Server) parts(m *model, acts bool) ([]part, error) {
	p := m.page(acts, s.guard.form)
	parts := make([]part, 0, len(partNames))
	for _, name := range partNames {
		var b strings.Builder
		if err := s.pages.ExecuteTemplate(&b, name, p); err != nil {
			return nil, err
		}
		parts = append(parts, part{name, b.String()})
	}
	return parts, nil
}

// action handles a form of a logged-in browser. It responds with plain text to the script,
// otherwise with the page.
func (s *Server) action(do func(ctx context.Context, r *http.Request) (said string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		script := strings.HasPrefix(r.Header.Get("Accept"), "text/plain")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "invalid or too large form", http.StatusBadRequest)
			return
		}
		if !s.mayAct(r) || !same(r.PostForm.Get("form"), s.guard.form) {
			http.Error(w, "open the link that `apoidea dashboard` prints, and try again", http.StatusForbidden)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), actTime)
		defer cancel()
		said, err := do(ctx, r)
		s.live.nudge()
		switch {
		case err != nil:
			status := http.StatusInternalServerError
			if e, ok := errors.AsType[*control.Error](err); ok && (e.Kind == control.KindUsage || e.Kind == control.KindRefused) {
				status = http.StatusBadRequest
			}
			if script {
				http.Error(w, sentence(err), status)
				return
			}
			s.page(w, r, status, sentence(err), true)
		case script:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, sayings[said])
		default:
			http.Redirect(w, r, "/?said="+said, http.StatusSeeOther)
		}
	}
}

// sentence formats an error for people.
func sentence(err error) string {
	return capital(err.Error()) + "."
}

// capital capitalizes the first letter of a text.
func capital(text string) string {
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

func (s *Server) pause(ctx context.Context, r *http.Request) (said string, err error) {
	var d time.Duration
	if text := r.PostForm.Get("for"); text != "" {
		if d, err = control.ParsePause(text); err != nil {
			return "", err
		}
	}
	_, err = s.peer.Pause(ctx, d)
	return "paused", err
}

func (s *Server) resume(ctx context.Context, _ *http.Request) (said string, err error) {
	_, err = s.peer.Resume(ctx)
	return "resumed", err
}

// post posts a job of one URL, which the peer validates.
func (s *Server) post(ctx context.Context, r *http.Request) (said string, err error) {
	spec := control.JobSpec{URLs: []string{strings.TrimSpace(r.PostForm.Get("url"))}}
	if text := strings.TrimSpace(r.PostForm.Get("pages")); text != "" {
		if spec.MaxPages, err = strconv.ParseUint(text, 10, 64); err != nil {
			return "", control.Usage(fmt.Sprintf("pages %.20q: must be a whole number, or empty", text))
		}
	}
	_, err = s.peer.Post(ctx, spec)
	s.live.listJobs(ctx)
	return "posted", err
}

// setJob pauses, resumes or cancels a job.
func (s *Server) setJob(ctx context.Context, r *http.Request) (said string, err error) {
	said = "job-" + r.PostForm.Get("action")
	if sayings[said] == "" {
		return "", control.Usage("job action: must be pause, resume or cancel")
	}
	_, err = s.peer.SetJob(ctx, r.PathValue("id"), r.PostForm.Get("action"))
	s.live.listJobs(ctx)
	return said, err
}

// setLimits sets what the form has other than the peer. Fields that are no settings are left alone.
func (s *Server) setLimits(ctx context.Context, r *http.Request) (said string, err error) {
	l, err := s.peer.Limits(ctx)
	if err != nil {
		return "", err
	}
	values := make(map[string]string)
	for _, setting := range l.Settings {
		if v, ok := r.PostForm[setting.Key]; ok && strings.TrimSpace(v[0]) != setting.Value {
			values[setting.Key] = strings.TrimSpace(v[0])
			if values[setting.Key] == setting.Default {
				values[setting.Key] = "default"
			}
		}
	}
	if len(values) == 0 {
		return "same", nil
	}
	_, err = s.peer.SetLimits(ctx, values)
	return "limited", err
}
