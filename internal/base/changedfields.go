package base

import (
	"reflect"
	"strings"
)

// ChangedFields returns the names of the exported fields in which a and b, two structs of one type, differ. The name of
// a field of a nested struct has the names of both, with a dot between them. Structs that an interface holds are not
// taken apart. Fields whose name, or the name of their struct with a dot, is among ignored are left out.
//
// Structs are compared by their fields. Pointers, maps and channels are the same if they are identical, functions if
// they have the same code, and interfaces if they hold values of one type that are the same. Slices are the same if
// their elements are: an empty one is the same as nil. So settings that were copied and passed on are the same,
// whatever they contain, and no code of theirs is called.
func ChangedFields(a, b any, ignored ...string) []string {
	return changedBelow(reflect.ValueOf(a), reflect.ValueOf(b), "", ignored)
}

func changedBelow(a, b reflect.Value, prefix string, ignored []string) (names []string) {
	for i := range a.NumField() {
		name := prefix + a.Type().Field(i).Name
		switch {
		case isAmong(name, ignored):
		case a.Field(i).Kind() == reflect.Struct:
			names = append(names, changedBelow(a.Field(i), b.Field(i), name+".", ignored)...)
		case !sameSetting(a.Field(i), b.Field(i)):
			names = append(names, name)
		}
	}
	return names
}

// isAmong reports whether a field is listed by its own name or by that of its struct.
func isAmong(name string, list []string) bool {
	for _, l := range list {
		if name == l || strings.HasSuffix(l, ".") && strings.HasPrefix(name, l) {
			return true
		}
	}
	return false
}

// sameSetting reports whether two values of one type are the same.
func sameSetting(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() == b.IsNil()
		}
		return a.Elem().Type() == b.Elem().Type() && sameSetting(a.Elem(), b.Elem())
	case reflect.Func, reflect.Map:
		return a.UnsafePointer() == b.UnsafePointer()
	case reflect.Slice:
		return a.Len() == b.Len() && sameElements(a, b)
	case reflect.Array:
		return sameElements(a, b)
	case reflect.Struct:
		for i := range a.NumField() {
			if !sameSetting(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

func sameElements(a, b reflect.Value) bool {
	for i := range a.Len() {
		if !sameSetting(a.Index(i), b.Index(i)) {
			return false
		}
	}
	return true
}
