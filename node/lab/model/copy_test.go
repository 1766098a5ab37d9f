package model

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
)

// copier copies a graph of data, unexported fields and cycles included. Functions and what never
// changes are shared.
type copier struct {
	seen map[unsafe.Pointer]reflect.Value
}

var (
	typeTime  = reflect.TypeFor[time.Time]()
	typeSum   = reflect.TypeFor[maphash.Hash]()
	typeRules = reflect.TypeFor[*rules]()
	typeProto = reflect.TypeFor[proto.Message]()
	// shared are pointers to what never changes.
	shared = []reflect.Type{reflect.TypeFor[*job.Spec](), reflect.TypeFor[*rules](), reflect.TypeFor[*msg]()}
	// plain remembers which types hold no pointers.
	plain = make(map[reflect.Type]bool)
)

func isPlain(t reflect.Type) bool {
	if p, ok := plain[t]; ok {
		return p
	}
	p := false
	switch t.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
	case reflect.Struct:
		p = true
		for f := range t.Fields() {
			p = p && isPlain(f.Type)
		}
		p = p || t == typeTime
	case reflect.Array:
		p = isPlain(t.Elem())
	default:
		p = true
	}
	plain[t] = p
	return p
}

// sharing says whether a type is a message, and whether it is shared.
type sharing struct{ proto, shared bool }

var sharings = make(map[reflect.Type]sharing)

func sharingOf(t reflect.Type) sharing {
	s, ok := sharings[t]
	if !ok {
		s.proto = t.Implements(typeProto)
		s.shared = s.proto || slices.Contains(shared, t)
		sharings[t] = s
	}
	return s
}

// open gives access to a value that came through an unexported field.
func open(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

// box makes a value addressable.
func box(v reflect.Value) reflect.Value {
	b := reflect.New(v.Type()).Elem()
	b.Set(v)
	return b
}

// copy sets dst to a copy of src; both are addressable.
func (c *copier) copy(dst, src reflect.Value) {
	t := src.Type()
	if isPlain(t) {
		dst.Set(src)
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		c.pointer(dst, src)
	case reflect.Interface:
		if src.IsNil() {
			return
		}
		e := box(src.Elem())
		d := reflect.New(e.Type()).Elem()
		c.copy(d, e)
		dst.Set(d)
	case reflect.Struct:
		for i := range t.NumField() {
			c.copy(open(dst.Field(i)), open(src.Field(i)))
		}
	case reflect.Array:
		for i := range src.Len() {
			c.copy(dst.Index(i), src.Index(i))
		}
	case reflect.Slice:
		if src.IsNil() {
			return
		}
		dst.Set(reflect.MakeSlice(t, src.Len(), src.Len()))
		if isPlain(t.Elem()) {
			reflect.Copy(dst, src)
			return
		}
		for i := range src.Len() {
			c.copy(dst.Index(i), src.Index(i))
		}
	case reflect.Map:
		c.table(dst, src)
	default:
		panic("model: copy of " + t.String())
	}
}

func (c *copier) pointer(dst, src reflect.Value) {
	if src.IsNil() {
		return
	}
	if sharingOf(src.Type()).shared {
		dst.Set(src)
		return
	}
	if p, ok := c.seen[src.UnsafePointer()]; ok && p.Type() == src.Type() {
		dst.Set(p)
		return
	}
	p := reflect.New(src.Type().Elem())
	c.seen[src.UnsafePointer()] = p
	dst.Set(p)
	c.copy(p.Elem(), src.Elem())
}

func (c *copier) table(dst, src reflect.Value) {
	if src.IsNil() {
		return
	}
	t := src.Type()
	dst.Set(reflect.MakeMapWithSize(t, src.Len()))
	for it := src.MapRange(); it.Next(); {
		k, v := it.Key(), it.Value()
		if !isPlain(t.Key()) {
			d := reflect.New(t.Key()).Elem()
			c.copy(d, box(k))
			k = d
		}
		if !isPlain(t.Elem()) {
			d := reflect.New(t.Elem()).Elem()
			c.copy(d, box(v))
			v = d
		}
		dst.SetMapIndex(k, v)
	}
}

// clone returns a copy of a world. Peers are copied when they are touched, see mine.
func clone(w *world) *world {
	n := *w
	n.peers, n.msgs, n.acked, n.owned = slices.Clone(w.peers), slices.Clone(w.msgs), slices.Clone(w.acked), [most]bool{}
	n.workers = deep(w.workers)
	return &n
}

// mine is a peer of this world that may be changed.
func (w *world) mine(i int) *pc {
	if !w.owned[i] {
		w.owned[i] = true
		w.peers[i] = deep(w.peers[i])
		w.peers[i].print = 0
	}
	return w.peers[i]
}

func deep[T any](v T) (out T) {
	c := copier{seen: make(map[unsafe.Pointer]reflect.Value, 64)}
	c.copy(reflect.ValueOf(&out).Elem(), reflect.ValueOf(&v).Elem())
	return out
}

// printer writes a graph of data down so that equal ones come to the same.
type printer struct {
	seed maphash.Seed
	seen map[unsafe.Pointer]bool
	out  []byte
}

// telling are the fields of a struct that tell worlds apart.
var telling = make(map[reflect.Type][]int)

var printSeed = maphash.MakeSeed()

// fingerprint tells worlds apart.
func fingerprint(w *world) uint64 {
	n := *w
	n.peers, n.owned = nil, [most]bool{}
	out := make([]byte, 0, 8*(most+1))
	out = binary.BigEndian.AppendUint64(out, printOf(&n))
	for _, p := range w.peers {
		if p.print == 0 {
			p.print = printOf(p)
		}
		out = binary.BigEndian.AppendUint64(out, p.print)
	}
	return maphash.Bytes(printSeed, out)
}

func printOf[T any](v *T) uint64 {
	p := printer{seed: printSeed, seen: make(map[unsafe.Pointer]bool, 64), out: make([]byte, 0, 1<<12)}
	p.print(reflect.ValueOf(v).Elem())
	return maphash.Bytes(p.seed, p.out)
}

func (p *printer) uint(n uint64) { p.out = binary.AppendUvarint(p.out, n) }

func (p *printer) print(v reflect.Value) {
	t := v.Type()
	switch t.Kind() {
	case reflect.Bool:
		if v.Bool() {
			p.out = append(p.out, 1)
		} else {
			p.out = append(p.out, 0)
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.uint(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		p.uint(v.Uint())
	case reflect.Float32, reflect.Float64:
		p.uint(math.Float64bits(v.Float()))
	case reflect.String:
		p.uint(uint64(v.Len()))
		p.out = append(p.out, v.String()...)
	case reflect.Pointer:
		p.pointer(v)
	case reflect.Interface:
		if !v.IsNil() {
			p.print(box(v.Elem()))
		}
	case reflect.Struct:
		p.record(v)
	case reflect.Array, reflect.Slice:
		p.uint(uint64(v.Len()))
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			p.out = append(p.out, v.Bytes()...)
			return
		}
		for i := range v.Len() {
			p.print(v.Index(i))
		}
	case reflect.Map:
		p.table(v)
	}
}

func (p *printer) record(v reflect.Value) {
	t := v.Type()
	switch t {
	case typeTime:
		p.uint(uint64(open(v).Interface().(time.Time).UnixMilli()))
		return
	case typeSum:
		return
	}
	told, ok := telling[t]
	if !ok {
		for i := range t.NumField() {
			switch f := t.Field(i); {
			case f.Name == "sums" || f.Type.Kind() == reflect.Func: // sums follow from the records that were sent
			default:
				told = append(told, i)
			}
		}
		telling[t] = told
	}
	for _, i := range told {
		p.print(open(v.Field(i)))
	}
}

func (p *printer) pointer(v reflect.Value) {
	switch {
	case v.IsNil():
		p.out = append(p.out, 0)
	case sharingOf(v.Type()).proto:
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(v.Interface().(proto.Message))
		if err != nil {
			panic(err)
		}
		p.uint(uint64(len(raw)))
		p.out = append(p.out, raw...)
	case v.Type() == typeRules:
	case p.seen[v.UnsafePointer()]:
		p.out = append(p.out, 1)
	default:
		p.seen[v.UnsafePointer()] = true
		p.out = append(p.out, 2)
		p.print(v.Elem())
	}
}

// table adds the entries up, as they come in any order. Keys that are pointers are left out: what
// they point to is found elsewhere.
func (p *printer) table(v reflect.Value) {
	p.uint(uint64(v.Len()))
	if v.Type().Key().Kind() == reflect.Pointer {
		return
	}
	from := len(p.out)
	sum := uint64(0)
	for it := v.MapRange(); it.Next(); {
		p.print(box(it.Key()))
		p.print(box(it.Value()))
		sum += maphash.Bytes(p.seed, p.out[from:])
		p.out = p.out[:from]
	}
	p.out = binary.BigEndian.AppendUint64(p.out, sum)
}
