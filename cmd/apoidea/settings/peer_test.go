package settings

import (
	"reflect"
	"testing"

	"github.com/spf13/pflag"
)

// TestFlagsSetFieldsOfTheirOwn: what a flag is bound to is one field of the configuration, which no
// other flag sets.
func TestFlagsSetFieldsOfTheirOwn(t *testing.T) {
	words := map[string]string{"bool": "true", "int": "7", "float64": "0.125", "duration": "7s", "string": "x", "stringArray": "x", "prefix": "true"}
	var names []string
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Peer).Add(all)
	all.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	setBy := make(map[string]string)
	for _, name := range names {
		var before, after Peer
		before.Add(pflag.NewFlagSet("", pflag.ContinueOnError))
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		after.Add(flags)
		if err := flags.Set(name, words[flags.Lookup(name).Value.Type()]); err != nil {
			t.Fatal(err)
		}
		was, is := reflect.ValueOf(before.Config), reflect.ValueOf(after.Config)
		for i := range was.NumField() {
			field := was.Type().Field(i)
			if !field.IsExported() || reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
				continue
			}
			if other := setBy[field.Name]; other != "" {
				t.Errorf("--%s sets %s, as --%s does", name, field.Name, other)
			}
			setBy[field.Name] = name
		}
	}
	if len(setBy) < 40 {
		t.Errorf("%d of %d flags set a field", len(setBy), len(names))
	}
}
