package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// SchemaID is the $id of the JSON Schema of pipeline files.
const SchemaID = "urn:exactly:pipeline"

// schema is a JSON Schema (draft 2020-12), as much of it as is needed here.
type schema struct {
	Schema            string             `json:"$schema,omitempty"`
	ID                string             `json:"$id,omitempty"`
	Ref               string             `json:"$ref,omitempty"`
	Title             string             `json:"title,omitempty"`
	Description       string             `json:"description,omitempty"`
	Type              string             `json:"type,omitempty"`
	Default           any                `json:"default,omitempty"`
	Enum              []string           `json:"enum,omitempty"`
	Pattern           string             `json:"pattern,omitempty"`
	Minimum           json.Number        `json:"minimum,omitempty"`
	Maximum           json.Number        `json:"maximum,omitempty"`
	MinLength         int                `json:"minLength,omitempty"`
	Required          []string           `json:"required,omitempty"`
	Properties        map[string]*schema `json:"properties,omitempty"`
	PatternProperties map[string]*schema `json:"patternProperties,omitempty"`
	Additional        any                `json:"additionalProperties,omitempty"` // bool or *schema
	PropertyNames     *schema            `json:"propertyNames,omitempty"`
	MinProperties     int                `json:"minProperties,omitempty"`
	MaxProperties     int                `json:"maxProperties,omitempty"`
	Items             *schema            `json:"items,omitempty"`
	MinItems          int                `json:"minItems,omitempty"`
	AnyOf             []*schema          `json:"anyOf,omitempty"`
	OneOf             []*schema          `json:"oneOf,omitempty"`
	Defs              map[string]*schema `json:"$defs,omitempty"`
}

const variablePattern = `\$\{`

// JSONSchema gives the JSON Schema of pipeline files with these sinks, for
// editors and other tools, indented and always the same.
func JSONSchema(kinds Kinds) ([]byte, error) {
	blocks, err := kinds.describe()
	if err != nil {
		return nil, err
	}
	root, err := describe(reflect.TypeFor[File]())
	if err != nil {
		return nil, err
	}
	s := blockSchema(root)
	s.Schema, s.ID = "https://json-schema.org/draft/2020-12/schema", SchemaID
	s.Title = "exactly pipeline file"
	s.PatternProperties = map[string]*schema{"^x-": {Description: "Anything: a place for YAML anchors."}}
	s.Defs = map[string]*schema{
		"variable": {Type: "string", Pattern: variablePattern, Description: "Text with ${NAME}, ${NAME:-default} or ${file:/path} in it."},
		"duration": {Type: "string", Pattern: "^(" + durationPattern + "|0)$|" + variablePattern, Description: "A time span: 100ms, 1h30m, 7d."},
		"size":     {Type: "string", Pattern: `^[0-9]+(\.[0-9]+)? ?([KMGTPEkmgtpe]?[Ii]?[Bb])?$|` + variablePattern, Description: "A size: 128MB, 16MiB."},
		"sink":     sinkSchema(kinds, blocks),
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("encode the JSON Schema: %w", err)
	}
	return out.Bytes(), nil
}

func blockSchema(b *block) *schema {
	s := &schema{Type: "object", Properties: map[string]*schema{}, Additional: false}
	for _, in := range b.settings {
		p := settingSchema(in)
		p.Description = in.doc
		p.Default = schemaDefault(in)
		s.Properties[in.name] = p
		if in.required || in.kind == kindBlock && needed(in.block) {
			s.Required = append(s.Required, in.name)
		}
	}
	return s
}

// needed reports whether a block that is absent lacks a required setting.
func needed(b *block) bool {
	for _, s := range b.settings {
		if s.required || s.kind == kindBlock && needed(s.block) {
			return true
		}
	}
	return false
}

func schemaDefault(s *setting) any {
	if !s.hasDef {
		return nil
	}
	switch s.kind {
	case kindBool:
		return s.def == "true"
	case kindInt, kindFloat:
		return json.Number(s.def)
	case kindTexts:
		return splitList(s.def)
	}
	return s.def
}

func settingSchema(s *setting) *schema {
	switch s.kind {
	case kindBool:
		return orVariable(&schema{Type: "boolean"})
	case kindInt:
		return orVariable(&schema{Type: "integer", Minimum: json.Number(s.min), Maximum: json.Number(s.max)})
	case kindFloat:
		return orVariable(&schema{Type: "number", Minimum: json.Number(s.min), Maximum: json.Number(s.max)})
	case kindDuration:
		return &schema{AnyOf: []*schema{{Ref: "#/$defs/duration"}, {Type: "integer", Minimum: "0", Maximum: "0"}}}
	case kindSize:
		return &schema{AnyOf: []*schema{{Ref: "#/$defs/size"}, {Type: "integer", Minimum: "0"}}}
	case kindTexts:
		item := textSchema(s)
		list := &schema{Type: "array", Items: item}
		if s.required {
			list.MinItems = 1
		}
		return &schema{AnyOf: []*schema{list, item}}
	case kindTextMap:
		return &schema{Type: "object", Additional: textSchema(&setting{enum: s.enum, expr: s.expr, required: true})}
	case kindBlock, kindOptional:
		return blockSchema(s.block)
	case kindBlocks:
		item := blockSchema(s.block)
		if s.oneOf {
			item.MinProperties, item.MaxProperties = 1, 1
		}
		return &schema{Type: "array", Items: item}
	case kindAssigns:
		return &schema{Type: "object", MinProperties: 1, Additional: textSchema(&setting{expr: s.expr})}
	case kindSinks:
		return &schema{
			Type: "object", MinProperties: 1, Additional: &schema{Ref: "#/$defs/sink"},
			PropertyNames: &schema{Type: "string", Pattern: sinkName.String()},
		}
	}
	return textSchema(s)
}

// orVariable lets a typed value come from the environment too.
func orVariable(s *schema) *schema {
	return &schema{AnyOf: []*schema{s, {Ref: "#/$defs/variable"}}}
}

// textSchema is the schema of text. Numbers and truth values are text too where
// text is wanted, as in `unset: [1]` or `where: true`.
func textSchema(s *setting) *schema {
	switch {
	case s.enum != nil:
		enum := s.enum
		if !s.required && !s.hasDef {
			enum = append([]string{""}, enum...)
		}
		return orVariable(&schema{Type: "string", Enum: enum})
	case s.pattern != nil:
		return orVariable(&schema{Type: "string", Pattern: s.pattern.String()})
	}
	text := &schema{Type: "string"}
	if s.expr != "" || s.required {
		text.MinLength = 1
	}
	return &schema{AnyOf: []*schema{text, {Type: "number"}, {Type: "boolean"}}}
}

func sinkSchema(kinds Kinds, blocks map[string]*block) *schema {
	where := sinkWhere()
	p := textSchema(where)
	p.Description = where.doc
	s := &schema{Type: "object", Additional: false, Properties: map[string]*schema{where.name: p}}
	for _, name := range kinds.names() {
		k := blockSchema(blocks[name])
		k.Description = "A sink of kind " + name + "."
		s.Properties[name] = k
		s.OneOf = append(s.OneOf, &schema{Required: []string{name}})
	}
	return s
}
