//! Grouping of tensors into blocks: a layer of a transformer is a block; tensors outside of layers are grouped by module.

/// Words in the names of modules that come before the layers of a forward pass.
const FIRST: [&str; 4] = ["emb", "wte", "wpe", "tok"];

/// The block of a tensor, by its name: up to the first part that is a number (`model.layers.7`), or else all but the last part
/// (`model.norm` of `model.norm.weight`). A name without parts is a block of its own.
pub(crate) fn block_of(tensor: &str) -> &str {
    let ends = tensor.match_indices('.').map(|(at, _)| at).chain([tensor.len()]);
    let mut start = 0;
    for end in ends {
        let part = &tensor[start..end];
        if start > 0 && !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return &tensor[..end];
        }
        start = end + 1;
    }
    tensor.rfind('.').map_or(tensor, |end| &tensor[..end])
}

/// Sort key of a block, in the order of a forward pass: embeddings, layers by their numbers, and the rest by name.
pub(crate) fn order(block: &str) -> impl Ord + use<> {
    let (stack, last) = block.rsplit_once('.').unwrap_or(("", block));
    let layer = last.parse::<u64>().ok().filter(|_| !stack.is_empty());
    let rank = match layer {
        Some(_) => 1,
        None if FIRST.iter().any(|word| block.contains(word)) => 0,
        // Norms are before heads, `lm_head` and the like.
        None if block.contains("norm") => 2,
        None => 3,
    };
    let text = if layer.is_some() { stack } else { block };
    (rank, text.to_owned(), layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_blocks() {
        for (tensor, block) in [
            ("model.layers.7.mlp.up_proj.weight", "model.layers.7"),
            ("model.layers.12.mlp.experts.3.w1.weight", "model.layers.12"),
            ("h.0.attn.c_attn.weight", "h.0"),
            ("model.norm.weight", "model.norm"),
            ("lm_head.weight", "lm_head"),
            ("weight", "weight"),
            ("7.weight", "7"),
            ("layers.7", "layers.7"),
            ("a..b", "a."),
            ("", ""),
        ] {
            assert_eq!(block_of(tensor), block, "{tensor}");
        }
    }

    #[test]
    fn blocks_are_in_the_order_of_a_forward_pass() {
        let mut blocks = ["lm_head", "model.norm", "model.layers.10", "model.layers.9", "model.embed_tokens"];
        blocks.sort_by_key(|block| order(block));
        let expected = ["model.embed_tokens", "model.layers.9", "model.layers.10", "model.norm", "lm_head"];
        assert_eq!(blocks, expected);
    }
}
