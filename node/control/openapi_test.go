package control_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

var updateOpenAPI = flag.Bool("update-openapi", false, "rewrite docs/openapi.json")

const openAPI = "../../docs/openapi.json"

// TestOpenAPI: docs/openapi.json describes every route of the server, with the parameters that its
// handler reads, and the types and comments of the backend's methods; and each path is served.
func TestOpenAPI(t *testing.T) {
	src := parseSources(t, ".", "../../crawl/owner", "../../crawl/owner/hosts")
	d := describe(t, src)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(d.document()); err != nil {
		t.Fatal(err)
	}
	if *updateOpenAPI {
		if err := os.WriteFile(openAPI, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(openAPI)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, b.Bytes()) {
		t.Error("docs/openapi.json is not that of the server: run go test ./node/control -run TestOpenAPI -update-openapi")
	}

	addr := filepath.Join(t.TempDir(), "s")
	serve(t, new(fake), addr)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", addr)
	}}}
	for path, methods := range d.paths {
		for method := range methods {
			url := "http://peer" + strings.NewReplacer("{", "", "}", "").Replace(path)
			req, err := http.NewRequestWithContext(t.Context(), strings.ToUpper(method), url, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusMethodNotAllowed {
				t.Errorf("%s %s: status %d", method, path, res.StatusCode)
			}
		}
	}
}

// sources are the declarations of some packages.
type sources struct {
	funcs map[string]*ast.FuncDecl // of this package, by name
	docs  map[string]string        // of types, "Type.Field" and "Type.Method"
}

func parseSources(t *testing.T, dirs ...string) *sources {
	t.Helper()
	s := &sources{funcs: make(map[string]*ast.FuncDecl), docs: make(map[string]string)}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			s.read(f, dir == ".")
		}
	}
	return s
}

func (s *sources) read(f *ast.File, ours bool) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if ours {
				s.funcs[d.Name.Name] = d
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					s.note(spec.Name.Name, d.Doc, spec.Doc, spec.Comment)
					s.members(spec)
				}
			}
		}
	}
}

func (s *sources) members(spec *ast.TypeSpec) {
	var list *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			s.note(spec.Name.Name+"."+name.Name, field.Doc, field.Comment)
		}
	}
}

func (s *sources) note(name string, groups ...*ast.CommentGroup) {
	for _, g := range groups {
		if text := strings.Join(strings.Fields(g.Text()), " "); text != "" && s.docs[name] == "" {
			s.docs[name] = text
		}
	}
}

// call is what a handler does: the backend's method, and the parameters that it reads.
type call struct {
	method string
	query  map[string]string // type by name
}

func (s *sources) handler(n ast.Node, c *call) {
	ast.Inspect(n, func(n ast.Node) bool {
		e, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch f := e.Fun.(type) {
		case *ast.SelectorExpr:
			x, _ := f.X.(*ast.Ident)
			inner, _ := f.X.(*ast.SelectorExpr)
			switch {
			case x != nil && x.Name == "b" || inner != nil && inner.Sel.Name == "backend":
				c.method = f.Sel.Name
			case f.Sel.Name == "FormValue":
				c.query[text(e.Args[0])] = "string"
			}
		case *ast.Ident:
			if f.Name == "flag" {
				c.query[text(e.Args[1])] = "boolean"
			} else if d := s.funcs[f.Name]; d != nil && f.Name != "stream" && f.Name != "decode" {
				s.handler(d.Body, c)
			}
		}
		return true
	})
}

func text(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok {
		if s, err := strconv.Unquote(lit.Value); err == nil {
			return s
		}
	}
	return ""
}

// api is the description in the making.
type api struct {
	src     *sources
	paths   map[string]map[string]any // by path and method
	schemas map[string]any
}

func describe(t *testing.T, src *sources) *api {
	t.Helper()
	d := &api{src: src, paths: make(map[string]map[string]any), schemas: make(map[string]any)}
	ast.Inspect(src.funcs["routes"].Body, func(n ast.Node) bool {
		e, ok := n.(*ast.CallExpr)
		if !ok || len(e.Args) != 2 {
			return true
		}
		method, path := "", text(e.Args[0])
		if f, ok := e.Fun.(*ast.Ident); ok && (f.Name == "get" || f.Name == "post") {
			method = f.Name
		} else if verb, rest, ok := strings.Cut(path, " "); ok {
			method, path = strings.ToLower(verb), rest
		}
		if method == "" || !strings.HasPrefix(path, "/") {
			return true
		}
		c := call{query: make(map[string]string)}
		streams := false
		if s, ok := e.Args[1].(*ast.SelectorExpr); ok {
			src.handler(src.funcs[s.Sel.Name].Body, &c)
		} else {
			inner, ok := e.Args[1].(*ast.CallExpr)
			streams = ok && inner.Fun.(*ast.Ident).Name == "stream"
			src.handler(e.Args[1], &c)
		}
		if d.paths[path] == nil {
			d.paths[path] = make(map[string]any)
		}
		d.paths[path][method] = d.operation(t, path, &c, streams)
		return false
	})
	return d
}

// operation describes a route by the backend's method.
func (d *api) operation(t *testing.T, path string, c *call, streams bool) map[string]any {
	t.Helper()
	m, ok := reflect.TypeFor[control.Backend]().MethodByName(c.method)
	if !ok {
		t.Fatalf("%s: no method %q", path, c.method)
	}
	op := map[string]any{"operationId": c.method, "description": cmp.Or(d.src.docs["Backend."+c.method], d.src.docs["Results."+c.method])}
	var params []any
	for part := range strings.SplitSeq(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			params = append(params, map[string]any{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.query)) {
		params = append(params, map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": c.query[name]}})
	}
	if params != nil {
		op["parameters"] = params
	}
	content := map[string]any{"application/octet-stream": map[string]any{"schema": map[string]any{"type": "string", "format": "binary"}}}
	for i := 1; i < m.Type.NumIn(); i++ {
		in := m.Type.In(i)
		switch {
		case in.Kind() == reflect.Func && streams:
			content = map[string]any{"application/x-ndjson": map[string]any{"schema": d.schema(in.In(0))}}
		case in.Kind() == reflect.Struct, in.Kind() == reflect.Slice, in.Kind() == reflect.Map:
			op["requestBody"] = map[string]any{"required": true, "content": map[string]any{"application/json": map[string]any{"schema": d.schema(in)}}}
		case c.method == "Pause":
			op["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": map[string]any{
				"type": "object", "properties": map[string]any{"for": map[string]any{"type": "string", "description": "a duration such as 90m; empty: until resumed"}},
			}}}}
		}
	}
	if out := m.Type.Out(0); m.Type.NumOut() == 2 {
		content = map[string]any{"application/json": map[string]any{"schema": d.schema(out)}}
	} else if !streams && c.method != "ReadArchive" {
		content = map[string]any{"application/json": map[string]any{"schema": map[string]any{"type": "object"}}}
	}
	ok200 := "one JSON document"
	switch {
	case streams:
		ok200 = `one JSON document per line; the last line is {"end":true}, with an error if it failed; without it the stream is truncated`
	case c.method == "ReadArchive":
		ok200 = "the file from the offset; the trailer field X-Apoidea-Error has an error in the middle of it"
	}
	op["responses"] = map[string]any{
		"200":     map[string]any{"description": ok200, "content": content},
		"default": map[string]any{"description": "failure", "content": map[string]any{"application/json": map[string]any{"schema": d.schema(reflect.TypeFor[control.Error]())}}},
	}
	return op
}

// schema describes a type as encoding/json encodes it.
func (d *api) schema(t reflect.Type) map[string]any {
	switch {
	case t.Kind() == reflect.Pointer:
		return d.schema(t.Elem())
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			return map[string]any{"type": "string", "format": "byte"}
		}
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case reflect.Struct:
		if _, ok := d.schemas[t.Name()]; !ok {
			d.schemas[t.Name()] = nil // a type may contain itself
			object := map[string]any{"type": "object"}
			properties := make(map[string]any)
			d.properties(t, properties)
			if len(properties) > 0 {
				object["properties"] = properties
			}
			if doc := d.src.docs[t.Name()]; doc != "" {
				object["description"] = doc
			}
			d.schemas[t.Name()] = object
		}
		return map[string]any{"$ref": "#/components/schemas/" + t.Name()}
	default:
		return map[string]any{}
	}
}

func (d *api) properties(t reflect.Type, into map[string]any) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			d.properties(f.Type, into)
		case name == "-" || !f.IsExported():
		default:
			s := d.schema(f.Type)
			if doc := d.src.docs[t.Name()+"."+f.Name]; doc != "" && s["$ref"] == nil {
				s["description"] = doc
			}
			into[cmp.Or(name, f.Name)] = s
		}
	}
}

func (d *api) document() map[string]any {
	return map[string]any{
		"openapi": "3.0.3",
		"info": map[string]any{
			"title": "Apoidea control API", "version": "1", "license": map[string]any{"name": "MIT"},
			"description": "HTTP/1.1 on the Unix socket apoidea.sock in the data directory, or on TCP (run --api tcp:HOST:PORT) with the token in the file api.token as a bearer token. JSON names are stable: fields are only added.",
		},
		"servers":    []any{map[string]any{"url": "http://peer"}},
		"paths":      d.paths,
		"components": map[string]any{"schemas": d.schemas, "securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}}},
		"security":   []any{map[string]any{"token": []any{}}, map[string]any{}},
	}
}
