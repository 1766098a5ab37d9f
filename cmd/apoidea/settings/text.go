package settings

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/node/ops/volunteer"
)

// Run holds the flags of a configuration file, for their names, texts and defaults.
type Run struct {
	// Peer has the flags of the peer.
	Peer Peer
	Job  Job // the job that the peer is started with
}

// Add adds the flags of a peer and of its job.
func (s *Run) Add(f *pflag.FlagSet) {
	f.SortFlags = false
	s.Peer.Add(f)
	s.Job.Add(f)
}

// configWidth is the approximate line width of the file.
const configWidth = 100

// Text returns a configuration file with all keys, in which the given flags are set.
func Text(root *cobra.Command, given *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString(`# Configuration of an apoidea peer. Each key is also a flag, and APOIDEA_<KEY> in the environment. Flags override the environment,
# which overrides this file. The values are the defaults. To set a key, remove the # before it.
`)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	var s Run
	s.Peer.Add(flags)
	isLimit := func(f *pflag.Flag) bool {
		_, ok := volunteer.Find(f.Name)
		return ok
	}
	group := func(title string, flags *pflag.FlagSet, member func(*pflag.Flag) bool) {
		fmt.Fprintf(&b, "\n#\n# %s\n#\n", title)
		flags.VisitAll(func(f *pflag.Flag) {
			if member(f) {
				writeKey(&b, f, given.Lookup(f.Name))
			}
		})
	}
	group("Resource limits (of a running peer: apoidea limits)", flags, isLimit)
	group("Peer", flags, func(f *pflag.Flag) bool { return !isLimit(f) })
	jobs := pflag.NewFlagSet("", pflag.ContinueOnError)
	jobs.SortFlags = false
	s.Job.Add(jobs)
	group("Job of the URLs given to run and crawl", jobs, func(*pflag.Flag) bool { return true })
	group("All commands", root.PersistentFlags(), func(f *pflag.Flag) bool { return f.Name != "config" && f.Name != "help" && f.Name != "json" })
	return b.String()
}

// writeKey writes a key with its meaning and its default, or the value that was given.
func writeKey(b *strings.Builder, f, given *pflag.Flag) {
	line, unset := "#", "#"
	if given != nil && given.Changed && len(given.Annotations[sourceNote]) == 0 {
		f, unset = given, ""
	}
	b.WriteString("\n")
	for word := range strings.FieldsSeq(f.Usage) {
		if len(line)+1+len(word) > configWidth {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	fmt.Fprintf(b, "%s\n%s%s = %s\n", line, unset, f.Name, textOf(f))
}

// textOf formats the value of a flag as TOML.
func textOf(f *pflag.Flag) string {
	if list, ok := listOf(f); ok {
		var quoted []string
		for _, v := range list.GetSlice() {
			quoted = append(quoted, strconv.Quote(v))
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	v := f.Value.String()
	switch f.Value.Type() {
	case "bool", "int", "uint64", "float64":
		return v
	default:
		if v == "true" || v == "false" {
			return v
		}
		return strconv.Quote(v)
	}
}

// listOf returns the value of a flag as a list, if it is one.
func listOf(f *pflag.Flag) (pflag.SliceValue, bool) {
	if a, ok := f.Value.(*allowed); ok && (a.config.AllowPrivate || len(a.config.AllowPrefixes) == 0) {
		return nil, false
	}
	list, ok := f.Value.(pflag.SliceValue)
	return list, ok
}

// Effective is an effective setting.
type Effective struct {
	Key    string `json:"key"`    // name of the flag
	Value  any    `json:"value"`  // text, number, truth or list
	Source string `json:"source"` // flag, environment, file or default
	// Text is the value as TOML.
	Text string `json:"-"`
}

// All lists the effective settings of a command.
func All(flags *pflag.FlagSet) (all []Effective) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "json" {
			all = append(all, effectiveOf(f))
		}
	})
	return all
}

func effectiveOf(f *pflag.Flag) Effective {
	e := Effective{Key: f.Name, Value: f.Value.String(), Source: "default", Text: textOf(f)}
	if list, ok := listOf(f); ok {
		e.Value = append([]string{}, list.GetSlice()...)
	}
	redact(&e)
	switch note := f.Annotations[sourceNote]; {
	case len(note) > 0:
		e.Source = note[0]
	case f.Changed:
		e.Source = "flag"
	}
	return e
}

// redact hides passwords.
func redact(e *Effective) {
	const hidden = "***"
	switch value := e.Value.(type) {
	case []string:
		if e.Key != "header" {
			return
		}
		quoted := make([]string, len(value))
		for i, text := range value {
			host, field, _ := strings.Cut(text, ": ")
			name, _, _ := strings.Cut(field, ":")
			value[i] = host + ": " + name + ": " + hidden
			quoted[i] = strconv.Quote(value[i])
		}
		e.Text = "[" + strings.Join(quoted, ", ") + "]"
	case string:
		if u, err := fetch.ParseProxy(value); e.Key == "proxy" && err == nil {
			e.Value, e.Text = u.Redacted(), strconv.Quote(u.Redacted())
		}
	}
}
