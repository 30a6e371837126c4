package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"sort"
	"strings"
)

// Kinds is the table of sink kinds: name as in the file to a pointer to the
// kind's Config struct, whose fields carry the tags. What the pointers point to
// is only looked at for its type.
type Kinds map[string]any

// Env looks up an environment variable, as os.LookupEnv does.
type Env func(name string) (string, bool)

// Load reads and checks the pipeline file at path. Its error is Errors, with
// everything that is wrong, unless kinds itself is.
func Load(path string, kinds Kinds, env Env) (*File, error) {
	data, err := readBounded(path)
	if err != nil {
		remedy := "is the path right? `exactly init` writes a file to begin with"
		if !errors.Is(err, fs.ErrNotExist) {
			remedy = "can this user read it?"
		}
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, Errors{{Code: codeRead, File: path, Cause: "cannot read the pipeline file: " + err.Error(), Remedy: remedy}}
	}
	return Parse(path, data, kinds, env)
}

// readBounded reads a file, but never much more than Parse accepts.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, errors.New("it is a directory")
	}
	if info.Size() > maxFile {
		return make([]byte, maxFile+1), nil
	}
	return os.ReadFile(path)
}

// lineEnds makes every line end that YAML knows the same.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// Parse checks the text of a pipeline file; name is for messages. A nil env has
// no variables. Its error is Errors, with everything that is wrong, unless
// kinds itself is. It reads files that `${file:…}` names and nothing else.
func Parse(name string, data []byte, kinds Kinds, env Env) (*File, error) {
	blocks, err := kinds.describe()
	if err != nil {
		return nil, err
	}
	root, err := describe(reflect.TypeFor[File]())
	if err != nil {
		return nil, err
	}
	text := lineEnds.Replace(strings.TrimPrefix(string(data), "\ufeff"))
	src := newSource(name, text)
	root.secrets(src.secrets)
	for _, b := range blocks {
		b.secrets(src.secrets)
	}
	top, e := parseYAML(src, text)
	if e != nil {
		return nil, Errors{e}
	}
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	f := &File{Name: name, origins: map[string]origin{}, kinds: blocks}
	l := &loader{
		tree: tree{src: src, nodes: map[string]*node{}, keys: map[string]pos{}}, kinds: kinds, blocks: blocks, env: env,
		origins: f.origins,
	}
	f.tree = l.tree
	l.root(root, top, f)
	l.check(f)
	if len(l.errs) > 0 {
		return nil, l.errs.sorted()
	}
	f.Warnings = l.warnings.sorted()
	return f, nil
}

func (k Kinds) describe() (map[string]*block, error) {
	out := make(map[string]*block, len(k))
	for name, c := range k {
		t := reflect.TypeOf(c)
		if t == nil || t.Kind() != reflect.Pointer {
			return nil, fmt.Errorf("sink kind %s: %T is not a pointer to a struct", name, c)
		}
		b, err := describe(t.Elem())
		if err != nil {
			return nil, fmt.Errorf("sink kind %s: %w", name, err)
		}
		out[name] = b
	}
	return out, nil
}

func (k Kinds) names() []string {
	out := make([]string, 0, len(k))
	for name := range k {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}
