package docs_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// typeComments returns the comments of the types that a package declares, with one space between words.
func typeComments(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	for _, f := range goFiles(t) {
		if path.Dir(f.name) != dir || f.isTest() {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.TYPE && !decl.Lparen.IsValid() {
				decl.Specs[0].(*ast.TypeSpec).Doc = decl.Doc
			}
			if spec, ok := n.(*ast.TypeSpec); ok {
				all[spec.Name.Name] = strings.Join(strings.Fields(spec.Doc.Text()), " ")
			}
			return true
		})
	}
	return all
}

// fieldNames returns the exported fields of a struct, or of the structs in an array, and nothing for another type.
func fieldNames(of types.Type) string {
	if array, ok := of.Underlying().(*types.Array); ok {
		of = array.Elem()
	}
	var names []string
	if s, ok := of.Underlying().(*types.Struct); ok {
		for field := range s.Fields() {
			if field.Exported() {
				names = append(names, field.Name())
			}
		}
	}
	return strings.Join(names, ", ")
}

// methodNames returns the exported methods of a type, but for those of which a reader does not have to be told.
func methodNames(of types.Type) string {
	var names []string
	methods := types.NewMethodSet(types.NewPointer(of))
	for m := range methods.Methods() {
		switch name := m.Obj().Name(); name {
		case "String", "Error", "Is", "Unwrap", "MarshalJSON", "MarshalText", "Format":
		default:
			if m.Obj().Exported() {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}

// go doc shows one line for an alias, and for Options only the names of the groups. So the comment lists what the type
// has.
func TestCommentsOfAliasesAndGroupsListTheFields(t *testing.T) {
	pkg, err := exportData(t, token.NewFileSet(), module+"db").Import(module + "db")
	require.NoError(t, err)
	comments := typeComments(t, "db")
	aliases := 0
	for name, comment := range comments {
		object, ok := pkg.Scope().Lookup(name).(*types.TypeName)
		if !ok || !object.IsAlias() || !object.Exported() {
			continue
		}
		target := types.Unalias(object.Type())
		if named, ok := target.(*types.Named); ok && named.Obj().Pkg().Path() == module+"report" {
			aliases++
		}
		if fields := fieldNames(target); fields != "" && name != "Metrics" {
			assert.Contains(t, comment, "Fields: "+fields+".", name)
		}
		if methods := methodNames(target); methods != "" && name != "Metrics" {
			assert.Contains(t, comment, "Methods: "+methods+".", name)
		}
	}
	require.Equal(t, 8, aliases, "those that programs name")
	for _, name := range []string{"Options", "Metrics"} {
		groups := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
		listed := 0
		for field := range groups.Fields() {
			if fields := fieldNames(field.Type()); fields != "" {
				assert.Contains(t, comments[name]+" -", " - "+field.Name()+": "+fields+" -", name)
				listed++
			} else if name == "Metrics" {
				assert.Contains(t, comments[name], field.Name(), name)
			}
		}
		require.Greater(t, listed, 7, name)
	}
}

// Package db named few of them.
func TestPackageCommentsNameThePublicPackages(t *testing.T) {
	for _, page := range []string{"db/doc.go", "doc.go"} {
		text := strings.NewReplacer("["+library+"/", "", ",", " ", ":", " ", "]", " ").Replace(read(t, page))
		words := strings.Fields(text)
		for _, p := range ofLibrary(t) {
			name, ok := strings.CutPrefix(p, module)
			if ok && name != "db" && !strings.Contains(name, "internal") && !slices.Contains([]string{"docs", "testdata"}, name) {
				assert.Contains(t, words, name, page)
			}
		}
		for _, name := range []string{"backup/blob", "metrics/prometheus", "compat/goleveldb", "cluster"} {
			assert.Contains(t, words, name, page)
		}
	}
}
