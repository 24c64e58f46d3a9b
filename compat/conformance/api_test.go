package conformance

import (
	"encoding/json"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowed are the differences between the two APIs, with the reason for each.
var allowed = map[string]string{
	"method leveldb/errors.(*ErrCorrupted).Unwrap":  "added: the error of SieveDB says which bytes are damaged",
	"method leveldb/storage.(*ErrCorrupted).Unwrap": "added, as above",
}

// testTools has what goleveldb's package testutil has for goleveldb's own tests. The module has only what tests of
// other programs were seen to use, so that nobody who uses the module gets ginkgo and gomega.
const testTools = "leveldb/testutil."

// Every exported name of goleveldb's packages is in the module, with the same type.
func TestTheExportedNamesAreGoleveldbs(t *testing.T) {
	want, got := exported(t, theirs), exported(t, ours)
	require.Greater(t, len(want), 600, "goleveldb has fewer names than expected")
	require.Contains(t, got, "method "+testTools+"(*KeyValue).PutU", "0xsoniclabs/substate uses it")
	var differences []string
	for name, declared := range want {
		if have, ok := got[name]; !ok && strings.Contains(name, testTools) {
			continue
		} else if !ok {
			differences = append(differences, fmt.Sprintf("%s is missing: %s", name, declared))
		} else if have != declared && allowed[name] == "" {
			differences = append(differences, fmt.Sprintf("%s is %s, in goleveldb %s", name, have, declared))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && allowed[name] == "" {
			differences = append(differences, name+" is not in goleveldb")
		}
	}
	for name := range allowed {
		require.NotEqual(t, want[name], got[name], "%s is no difference any more", name)
	}
	slices.Sort(differences)
	require.Empty(t, differences)
}

// exported returns the declarations of all exported names of a side, by kind and name.
func exported(t *testing.T, s *side) map[string]string {
	type listed struct{ ImportPath, Export string }
	files := map[string]string{}
	var packages []string
	list := s.command("list", "-export", "-deps", "-json=ImportPath,Export", goleveldb+"/leveldb/...")
	for decoder := json.NewDecoder(strings.NewReader(string(output(t, list)))); ; {
		var p listed
		err := decoder.Decode(&p)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		files[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, goleveldb+"/") {
			packages = append(packages, p.ImportPath)
		}
	}
	load := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	names := map[string]string{}
	for _, path := range packages {
		p, err := load.Import(path)
		require.NoError(t, err)
		for _, name := range p.Scope().Names() {
			if o := p.Scope().Lookup(name); o.Exported() {
				describe(names, strings.TrimPrefix(path, goleveldb+"/"), o)
			}
		}
	}
	return names
}

// describe adds an object, and the methods of a type, to names.
func describe(names map[string]string, pkg string, o types.Object) {
	full := pkg + "." + o.Name()
	switch o := o.(type) {
	case *types.Const:
		names["const "+full] = unnamed(o.Type()) + " = " + o.Val().ExactString()
	case *types.TypeName:
		names["type "+full] = unnamed(o.Type().Underlying())
		for _, receiver := range []types.Type{o.Type(), types.NewPointer(o.Type())} {
			methods := types.NewMethodSet(receiver)
			for i := range methods.Len() {
				if m := methods.At(i).Obj(); m.Exported() {
					_, pointer := receiver.(*types.Pointer)
					name := map[bool]string{false: "(" + o.Name() + ")", true: "(*" + o.Name() + ")"}[pointer]
					names["method "+pkg+"."+name+"."+m.Name()] = unnamed(m.Type())
				}
			}
		}
	default:
		names[fmt.Sprintf("%T %s", o, full)] = unnamed(o.Type())
	}
}

// unnamed describes a type without the names of parameters and without unexported fields.
func unnamed(typ types.Type) string {
	switch typ := typ.(type) {
	case *types.Signature:
		variadic := ""
		if typ.Variadic() {
			variadic = " variadic"
		}
		return "func(" + tuple(typ.Params()) + variadic + ") (" + tuple(typ.Results()) + ")"
	case *types.Struct:
		fields := []string{}
		for i := range typ.NumFields() {
			if f := typ.Field(i); f.Exported() {
				fields = append(fields, fmt.Sprintf("%s %s %v", f.Name(), unnamed(f.Type()), f.Embedded()))
			}
		}
		return "struct{" + strings.Join(fields, "; ") + "}"
	case *types.Interface:
		methods := []string{}
		for i := range typ.NumMethods() {
			m := typ.Method(i)
			methods = append(methods, m.Name()+" "+unnamed(m.Type()))
		}
		return "interface{" + strings.Join(methods, "; ") + "}"
	case *types.Pointer:
		return "*" + unnamed(typ.Elem())
	case *types.Slice:
		return "[]" + unnamed(typ.Elem())
	}
	return types.TypeString(typ, nil)
}

func tuple(t *types.Tuple) string {
	var list []string
	for i := range t.Len() {
		list = append(list, unnamed(t.At(i).Type()))
	}
	return strings.Join(list, ", ")
}
