# What changes while nostray runs.
_nostray_words() {
    local -a found
    local word what
    while IFS=$'\t' read -r word what; do
        found+=("${word//:/\\:}:$what")
    done < <(_call_program words nostray complete $1 2>/dev/null)
    _describe -t $1 $2 found
}
_nostray_children() { _nostray_words children child }
_nostray_sessions() { _nostray_words sessions session }
_nostray_keys() { _nostray_words keys key }
_nostray_slots() { _nostray_words slots slot }
