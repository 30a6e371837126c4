package config

import (
	"errors"
	"strings"
)

// SinkError gives the refusal of a sink's settings its place in the file. A
// message that begins with the path of a setting, as in "roll.size: is too
// small" or "sink lake: object.roll.size: is too small", is placed at that
// setting. An unknown sink's, and one that has a place already, keeps the text.
func (f *File) SinkError(name string, err error) *Error {
	var placed *Error
	if errors.As(err, &placed) {
		return placed
	}
	path, cause := "sinks."+name, err.Error()
	for _, s := range f.Sinks {
		if s.Name != name || f.kinds[s.Kind] == nil {
			continue
		}
		path = join(path, s.Kind)
		cause = strings.TrimPrefix(strings.TrimPrefix(cause, "sink "+name+": "), s.Kind+".")
		setting, rest, ok := strings.Cut(cause, ": ")
		if ok && f.kinds[s.Kind].has(setting) {
			path, cause = join(path, setting), rest
		}
	}
	return f.tree.src.fault(codeSettings, f.tree.at(path), path, cause, "")
}

// has reports whether path, as in "roll.size" or "headers.X-Id", names a
// setting of b.
func (b *block) has(path string) bool {
	name, rest, deeper := strings.Cut(path, ".")
	s := b.find(name)
	switch {
	case s == nil:
		return false
	case !deeper || s.kind == kindTextMap:
		return true
	}
	return s.block != nil && s.block.has(rest)
}
