package sizelimit

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

const (
	// maxCounted is the maximum number of counted fields of a message type: lists, and messages in it.
	maxCounted = 16
	// sliceHeader is the memory that reflection allocates for a list.
	sliceHeader = 24
	// pointed is the memory of a value behind a pointer of its own.
	pointed = 16
	// Bytes appended piece by piece take regrown times their total, and at least smallest.
	regrown, smallest = 5, 16
	// doubling is the length from which append grows a list by less than its length.
	doubling = 256
)

// plan describes a type of message for counting.
type plan struct {
	name   string
	size   int // of its Go struct
	spare  int
	fields []*field // by number
	lists  []field  // those that Unpack allocates; protobuf itself does so for scalars
}

// field describes a field.
type field struct {
	name    string
	slot    int // index of its counter; 0: not counted
	most    int // maximum elements, or 1 for a message
	typ     protowire.Type
	packs   bool  // scalars, which may come packed
	width   int   // of a packed element; 0: it is a varint
	element int   // of a list in Go; 0: no list
	each    int   // memory of a value beyond its place in a list and its content
	holds   bool  // string or bytes
	plain   bool  // a number stored in the Go struct itself
	plan    *plan // of a message

	index int          // of a list in the Go struct
	slice reflect.Type // of it
}

func (p *plan) field(num protowire.Number) *field {
	if int(num) < len(p.fields) {
		return p.fields[num]
	}
	return nil
}

func (f *field) takes(typ protowire.Type) bool {
	return typ == f.typ || f.packs && typ == protowire.BytesType
}

// packed returns the number of elements in a packed list.
func (f *field) packed(b []byte) (n int) {
	if f.width > 0 {
		return len(b) / f.width
	}
	for _, c := range b {
		if c < 0x80 {
			n++
		}
	}
	return n
}

// tables are the limits of fields and the spares of messages, by full name.
var tables = struct {
	sync.Mutex
	most, spare map[protoreflect.FullName]int
}{most: map[protoreflect.FullName]int{}, spare: map[protoreflect.FullName]int{}}

// Table registers, for a package of messages, the maximum number of elements of repeated fields, by
// Message.field, and the memory that messages of a type may take beyond Times their length, if not
// Spare. Other fields are limited by the memory of their elements. Call it before any message of
// the package is counted.
func Table(of string, most, spare map[string]int) {
	tables.Lock()
	defer tables.Unlock()
	for name, n := range most {
		tables.most[protoreflect.FullName(of+"."+name)] = n
	}
	for name, n := range spare {
		tables.spare[protoreflect.FullName(of+"."+name)] = n
	}
}

// Bound returns the limit of a repeated field set by [Table].
func Bound(name protoreflect.FullName) (most int, ok bool) {
	tables.Lock()
	defer tables.Unlock()
	most, ok = tables.most[name]
	return most, ok
}

// SpareOf returns the memory that messages of a type may take beyond Times their length.
func SpareOf(name protoreflect.FullName) int {
	tables.Lock()
	defer tables.Unlock()
	if spare, ok := tables.spare[name]; ok {
		return spare
	}
	return Spare
}

// plans are cached by type on first use: reflect.Type -> *plan.
var plans sync.Map

func planOf(m proto.Message) (*plan, error) {
	t := reflect.TypeOf(m)
	if p, ok := plans.Load(t); ok {
		return p.(*plan), nil
	}
	p, err := newPlan(m, MaxDepth)
	if err != nil {
		return nil, err
	}
	made, _ := plans.LoadOrStore(t, p)
	return made.(*plan), nil
}

func newPlan(m proto.Message, depth int) (*plan, error) {
	of := m.ProtoReflect().Descriptor()
	t := reflect.TypeOf(m).Elem()
	p := &plan{name: string(of.Name()), size: class(int(t.Size())), spare: SpareOf(of.FullName())}
	if depth == 0 {
		return nil, fmt.Errorf("messages of type %s nest too deep to be counted", of.FullName())
	}
	slots := 0
	for i := range of.Fields().Len() {
		fd := of.Fields().Get(i)
		f, err := newField(fd, depth)
		if err != nil {
			return nil, err
		}
		if fd.IsList() || f.plan != nil {
			if slots++; slots >= maxCounted {
				return nil, fmt.Errorf("messages of type %s have too many fields to be counted", of.FullName())
			}
			f.slot = slots
		}
		if fd.IsList() {
			if err := f.find(t, fd.Number()); err != nil {
				return nil, err
			}
			if !f.packs {
				p.lists = append(p.lists, *f)
			}
		}
		for len(p.fields) <= int(fd.Number()) {
			p.fields = append(p.fields, nil)
		}
		p.fields[fd.Number()] = f
	}
	return p, nil
}

func newField(fd protoreflect.FieldDescriptor, depth int) (*field, error) {
	f := &field{name: string(fd.Parent().Name()) + "." + string(fd.Name()), most: math.MaxInt}
	if fd.IsMap() || fd.Kind() == protoreflect.GroupKind || fd.Number() > 1<<10 {
		return nil, fmt.Errorf("%s is of a kind that cannot be counted", fd.FullName())
	}
	switch fd.Kind() {
	case protoreflect.MessageKind:
		inner, err := protoregistry.GlobalTypes.FindMessageByName(fd.Message().FullName())
		if err != nil {
			return nil, err
		}
		if f.plan, err = newPlan(inner.Zero().Interface(), depth-1); err != nil {
			return nil, err
		}
		f.typ, f.most = protowire.BytesType, 1 // a second one would be merged with the first
	case protoreflect.StringKind, protoreflect.BytesKind:
		f.typ, f.holds = protowire.BytesType, true
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		f.typ, f.width = protowire.Fixed32Type, 4
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		f.typ, f.width = protowire.Fixed64Type, 8
	default:
		f.typ = protowire.VarintType
	}
	f.packs = fd.IsList() && f.typ != protowire.BytesType
	switch {
	case fd.IsList():
		f.most = math.MaxInt
		if most, ok := Bound(fd.FullName()); ok {
			f.most = most
		}
	case fd.ContainingOneof() != nil, fd.HasPresence() && f.plan == nil:
		f.each = pointed
	}
	f.plain = !fd.IsList() && f.plan == nil && !f.holds && f.each == 0
	return f, nil
}

// find finds the Go field of a list.
func (f *field) find(t reflect.Type, num protoreflect.FieldNumber) error {
	for i := range t.NumField() {
		parts := strings.SplitN(t.Field(i).Tag.Get("protobuf"), ",", 3)
		if len(parts) == 3 && parts[1] == strconv.Itoa(int(num)) {
			f.index, f.slice = i, t.Field(i).Type
			f.element = int(f.slice.Elem().Size())
			return nil
		}
	}
	return fmt.Errorf("%s has no Go field", f.name)
}

// class returns an upper estimate of the memory that Go allocates for an object of n bytes: size
// classes up to 512 bytes are multiples of a step, larger ones waste up to a fifth of n, and the
// largest objects are whole pages.
func class(n int) int {
	step := 8 << 10
	switch {
	case n <= 32:
		step = 8
	case n <= 256:
		step = 16
	case n <= 512:
		step = 32
	case n < 32<<10:
		return n + min(n/5+16, n/8+640)
	}
	return (n + step - 1) / step * step
}
