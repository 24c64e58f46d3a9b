package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// appendJSON appends v as JSON, for reports of all packages in one style:
//
//   - Names of fields are those of their json tags, otherwise those in Go with a small first letter.
//   - Bytes in a field "key" are a string "key" if they are text, otherwise "keyBase64"; with --hex they
//     are "keyHex", and with --base64 always "keyBase64". nil bytes, which are no bound, are null.
//   - A duration in a field "time" is a number "timeNanos".
//   - Errors and types with a String method are strings. Numbers that JSON does not have are null.
//   - Keys in the form of namespaces are "keyNamespaced". The names of fields say which bytes are values.
func appendJSON(dst []byte, v any, f format) []byte {
	e := jsonEncoder{dst: dst, format: f}
	e.value(reflect.ValueOf(v))
	return e.dst
}

type jsonEncoder struct {
	dst    []byte
	format format
}

func (e *jsonEncoder) put(s string) { e.dst = append(e.dst, s...) }

func (e *jsonEncoder) string(s string) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string has a JSON form
	text := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if bytes.IndexByte(text, 0x7f) < 0 && bytes.IndexByte(text, 0xc2) < 0 { // nearly always
		e.dst = append(e.dst, text...)
		return
	}
	for _, r := range string(text) {
		if r >= 0x7f && r < 0xa0 { // some terminals take these control characters as commands
			e.dst = fmt.Appendf(e.dst, "\\u%04x", r)
			continue
		}
		e.dst = utf8.AppendRune(e.dst, r)
	}
}

func (e *jsonEncoder) value(v reflect.Value) {
	if !v.IsValid() {
		e.put("null")
		return
	}
	if e.special(v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		e.value(v.Elem())
	case reflect.Struct:
		e.put("{")
		first := true
		e.fields(v, &first)
		e.put("}")
	case reflect.Map:
		e.entries(v)
	case reflect.Slice, reflect.Array:
		e.put("[")
		for i := range v.Len() {
			if i > 0 {
				e.put(",")
			}
			e.value(v.Index(i))
		}
		e.put("]")
	case reflect.String:
		e.string(v.String())
	case reflect.Float64, reflect.Float32:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			e.put("null")
			return
		}
		e.plain(v)
	default:
		e.plain(v)
	}
}

func (e *jsonEncoder) plain(v reflect.Value) {
	b, err := json.Marshal(v.Interface())
	if err != nil { // a channel or a function; no report has one
		b = []byte("null")
	}
	e.dst = append(e.dst, b...)
}

// special encodes values that have a form of their own.
func (e *jsonEncoder) special(v reflect.Value) bool {
	if !v.CanInterface() || v.Kind() == reflect.Pointer && v.IsNil() || v.Kind() == reflect.Interface && v.IsNil() {
		return false
	}
	switch x := v.Interface().(type) {
	case size:
		e.put(fmt.Sprint(uint64(x)))
	case []byte:
		_, text := e.bytes(x, e.format.key)
		e.put(text)
	case json.Marshaler: // time.Time, too
		e.plain(v)
	case error:
		e.string(x.Error())
	case fmt.Stringer:
		if v.Kind() == reflect.Struct || v.Kind() == reflect.Pointer {
			return false // a report, whose fields say more
		}
		e.string(x.String())
	default:
		return false
	}
	return true
}

// bytes returns how the name of a field of bytes ends, and their JSON.
func (e *jsonEncoder) bytes(b []byte, enc encoding) (suffix, text string) {
	sub := jsonEncoder{}
	switch {
	case b == nil:
		return "", "null"
	case enc == encHex:
		suffix = "Hex"
		sub.string(hex.EncodeToString(b))
	case enc == encNamespace && len(b) > 0 && (b[0] == 0 || b[0] == '['):
		suffix = "Namespaced"
		sub.string(namespaced(b))
	case enc == encBase64 || !utf8.Valid(b):
		suffix = "Base64"
		sub.string(base64.StdEncoding.EncodeToString(b))
	default:
		sub.string(string(b))
	}
	return suffix, string(sub.dst)
}

func (e *jsonEncoder) name(name string, first *bool) {
	if !*first {
		e.put(",")
	}
	*first = false
	e.string(name)
	e.put(":")
}

func (e *jsonEncoder) fields(v reflect.Value, first *bool) {
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || options == "omitempty" && value.IsZero() {
			continue
		}
		if f.Anonymous && name == "" && value.Kind() == reflect.Struct {
			e.fields(value, first)
			continue
		}
		if name == "" {
			name = lowerFirst(f.Name)
		}
		e.named(name, value.Interface(), first)
	}
}

// named appends a field with its name.
func (e *jsonEncoder) named(name string, value any, first *bool) {
	switch x := value.(type) {
	case []byte:
		enc := e.format.key
		if name == "value" || name == "old" || name == "new" {
			enc = e.format.value
		}
		suffix, text := e.bytes(x, enc)
		e.name(name+suffix, first)
		e.put(text)
	case time.Duration:
		e.name(name+"Nanos", first)
		e.put(fmt.Sprint(x.Nanoseconds()))
	default:
		e.name(name, first)
		e.value(reflect.ValueOf(value))
	}
}

func (e *jsonEncoder) entries(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	e.put("{")
	first := true
	for _, k := range keys {
		e.name(fmt.Sprint(k.Interface()), &first)
		e.value(v.MapIndex(k))
	}
	e.put("}")
}

// lowerFirst makes the first letter small, and all letters of an abbreviation such as ID.
func lowerFirst(name string) string {
	if strings.ToUpper(name) == name {
		return strings.ToLower(name)
	}
	r := []rune(name)
	r[0] = unicode.ToLower(r[0])
	return string(r)
}
