package logs

import (
	"context"
	"log"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"time"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
	"go.uber.org/zap/zapcore"
)

// Capture has everything in this process that logs by itself do so by the handler: package log
// (HTTP/2, QUIC), slog's default, go-log and what of libp2p has a logger of its own. It is for the
// main of a program: what it sets belongs to the process.
func Capture(h slog.Handler) {
	slog.SetDefault(slog.New(foreign(h, "default")))
	log.SetFlags(0)
	log.SetPrefix("")
	log.SetOutput(standard{h})
	gologshim.SetDefaultHandler(quiet{foreign(h, "libp2p")})
	golog.SetPrimaryCore(core{h: h, enabled: zapcore.ErrorLevel})
}

func foreign(h slog.Handler, component string) slog.Handler {
	return h.WithAttrs([]slog.Attr{slog.String(ComponentKey, component)})
}

// quiet lets errors of a library through: what it warns of is the network's everyday life.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && q.Handler.Enabled(ctx, level)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

// standard is the output of package log. The component is the package whose function called it.
type standard struct{ h slog.Handler }

func (s standard) Write(line []byte) (int, error) {
	if !s.h.Enabled(context.Background(), slog.LevelWarn) {
		return len(line), nil
	}
	r := slog.NewRecord(time.Now(), slog.LevelWarn, strings.TrimSpace(string(line)), 0)
	return len(line), foreign(s.h, caller()).Handle(context.Background(), r)
}

// caller is the import path of the package that called package log, of which Write is called in
// turn.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])]) // not Callers, caller and Write
	for {
		f, more := frames.Next()
		if name := packageOf(f.Function); name != "log" && name != "" {
			return cut(name, 128)
		}
		if !more {
			return "log"
		}
	}
}

// packageOf returns the import path of a function's package: all before the first dot of the last
// element.
func packageOf(function string) string {
	base := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[base:], ".")
	return function[:base] + name
}

// core is where go-log, which writes by zap, puts its lines.
type core struct {
	h       slog.Handler
	enabled zapcore.Level
	fields  []zapcore.Field
}

func (c core) Enabled(l zapcore.Level) bool {
	return l >= c.enabled && c.h.Enabled(context.Background(), levelOf(l))
}

func (c core) With(fields []zapcore.Field) zapcore.Core {
	c.fields = append(slices.Clip(c.fields), fields...)
	return c
}

func (c core) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, levelOf(e.Level), e.Message, 0)
	values := zapcore.NewMapObjectEncoder()
	for _, list := range [][]zapcore.Field{c.fields, fields} {
		for _, f := range list {
			f.AddTo(values)
		}
	}
	for name, value := range values.Fields {
		r.AddAttrs(slog.Any(name, value))
	}
	component := e.LoggerName
	if component == "" {
		component = "go-log"
	}
	return foreign(c.h, cut(component, 128)).Handle(context.Background(), r)
}

func (c core) Sync() error { return nil }

func levelOf(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	case l == zapcore.InfoLevel:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}
