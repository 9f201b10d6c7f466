// Prefers endpoints with small values in one column: 1 / (1 + value), and never below a floor. Below 0 is 0.

#include "scorer.h"

#include <stdlib.h>
#include <string.h>

static uint32_t column;
static float least;

void exports_sluicegate_policy_plugin_describe(exports_sluicegate_policy_plugin_manifest_t *manifest) {
  scorer_string_dup(&manifest->name, "least-requests");
  scorer_string_dup(&manifest->version, "1.0.0");
  scorer_string_dup(&manifest->summary, "prefers small values of a column, in C");
  manifest->default_weight = 1;
  scorer_string_dup(&manifest->config_schema, "");
}

// Reads `"KEY": "text"` and `"KEY": number` of one flat object, which is all that this plugin takes.
typedef struct {
  const char *at;
  const char *end;
} json_t;

static void skip(json_t *json) {
  while (json->at < json->end && strchr(" \t\r\n", *json->at)) json->at++;
}

static bool take(json_t *json, char wanted) {
  skip(json);
  if (json->at == json->end || *json->at != wanted) return false;
  json->at++;
  return true;
}

static bool take_text(json_t *json, scorer_string_t *text) {
  if (!take(json, '"')) return false;
  text->ptr = (uint8_t *)json->at;
  while (json->at < json->end && *json->at != '"') {
    // An escape would have to be copied; no column needs one.
    if (*json->at == '\\') return false;
    json->at++;
  }
  text->len = json->at - (const char *)text->ptr;
  return take(json, '"');
}

static bool take_number(json_t *json, float *number) {
  skip(json);
  char digits[32];
  size_t length = 0;
  while (json->at < json->end && length + 1 < sizeof digits && strchr("+-.0123456789eE", *json->at)) {
    digits[length++] = *json->at++;
  }
  digits[length] = 0;
  char *stop;
  *number = strtof(digits, &stop);
  return length > 0 && *stop == 0;
}

static bool is(const scorer_string_t *text, const char *word) {
  return text->len == strlen(word) && memcmp(text->ptr, word, text->len) == 0;
}

static bool refuse(scorer_string_t *error, const char *why) {
  scorer_string_dup(error, why);
  return false;
}

bool exports_sluicegate_policy_plugin_configure(scorer_string_t *config, scorer_string_t *error) {
  scorer_string_t name, key;
  scorer_string_set(&name, "load.requests");
  least = 0;
  json_t json = {(const char *)config->ptr, (const char *)config->ptr + config->len};
  if (!take(&json, '{')) return refuse(error, "the configuration is no object");
  if (!take(&json, '}')) {
    do {
      if (!take_text(&json, &key) || !take(&json, ':')) return refuse(error, "the configuration is no flat object");
      if (is(&key, "column")) {
        if (!take_text(&json, &name)) return refuse(error, "`column` is no plain text");
      } else if (is(&key, "floor")) {
        if (!take_number(&json, &least)) return refuse(error, "`floor` is no number");
      } else {
        return refuse(error, "there is a key other than column and floor");
      }
    } while (take(&json, ','));
    if (!take(&json, '}')) return refuse(error, "the configuration is no flat object");
  }
  bool resolved = sluicegate_policy_columns_resolve(&name, &column, error);
  scorer_string_free(config);
  return resolved;
}

void exports_sluicegate_policy_scorer_score(exports_sluicegate_policy_scorer_borrow_request_t request,
                                            exports_sluicegate_policy_scorer_borrow_endpoints_t endpoints,
                                            scorer_list_f32_t *scores) {
  sluicegate_policy_view_method_endpoints_column(endpoints, column, 0, scores);
  for (size_t i = 0; i < scores->len; i++) {
    float value = scores->ptr[i] > 0 ? scores->ptr[i] : 0;
    float score = 1 / (1 + value);
    scores->ptr[i] = score < least ? least : score;
  }
  sluicegate_policy_view_request_drop_borrow(request);
  sluicegate_policy_view_endpoints_drop_borrow(endpoints);
}
