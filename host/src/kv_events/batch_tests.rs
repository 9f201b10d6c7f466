use proptest::prelude::*;
use rmp::encode::{
    write_array_len, write_bin, write_f64, write_map_len, write_nil, write_sint, write_str, write_uint,
};

use super::*;

/// What an event's members may be.
#[derive(Debug, Clone)]
enum Member {
    Nil,
    Number(u64),
    Signed(i64),
    Text(&'static str),
    Bytes(Vec<u8>),
    List(Vec<Member>),
}

use Member::{Bytes, List, Nil, Number, Signed, Text};

fn write(out: &mut Vec<u8>, member: &Member) {
    match member {
        Nil => write_nil(out).unwrap(),
        Number(value) => _ = write_uint(out, *value).unwrap(),
        Signed(value) => _ = write_sint(out, *value).unwrap(),
        Text(text) => write_str(out, text).unwrap(),
        Bytes(bytes) => write_bin(out, bytes).unwrap(),
        List(items) => {
            write_array_len(out, u32::try_from(items.len()).unwrap()).unwrap();
            items.iter().for_each(|item| write(out, item));
        }
    }
}

fn list(members: &[Member]) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, &List(members.to_vec()));
    out
}

fn map(members: &[(&str, Member)]) -> Vec<u8> {
    let mut out = Vec::new();
    write_map_len(&mut out, u32::try_from(members.len()).unwrap()).unwrap();
    for (name, member) in members {
        write_str(&mut out, name).unwrap();
        write(&mut out, member);
    }
    out
}

fn message(events: &[Vec<u8>], rank: Option<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    write_array_len(&mut out, if rank.is_some() { 3 } else { 2 }).unwrap();
    write_f64(&mut out, 1.5).unwrap();
    write_array_len(&mut out, u32::try_from(events.len()).unwrap()).unwrap();
    events.iter().for_each(|event| out.extend_from_slice(event));
    if let Some(rank) = rank {
        write_uint(&mut out, rank).unwrap();
    }
    out
}

fn only(event: Vec<u8>) -> Result<Event, Dropped> {
    let batch = Batch::read(&message(&[event], Some(3))).unwrap();
    assert_eq!((batch.at, batch.rank, batch.events.len()), (1.5, Some(3), 1));
    batch.events.into_iter().next().unwrap()
}

fn numbers(values: &[u64]) -> Member {
    List(values.iter().map(|value| Number(*value)).collect())
}

fn plain() -> Stored {
    Stored {
        blocks: vec![u64::MAX, 2],
        parent: Some(9),
        tokens: vec![5, 6, 7, 8],
        block_tokens: 2,
        adapter: Adapter::None,
        extra: Vec::new(),
        tier: Tier::Gpu,
        group: None,
        full_attention: None,
    }
}

#[test]
fn maps_and_lists_say_the_same() {
    let full = Stored {
        adapter: Adapter::Named("sql".into()),
        extra: vec![Extra::None, Extra::Text("salt".into())],
        tier: Tier::Cpu,
        group: Some(1),
        full_attention: Some(true),
        ..plain()
    };
    let extra = List(vec![List(vec![Text("sql")]), List(vec![Text("sql"), Text("salt")])]);
    let members = [
        ("type", Text("BlockStored")),
        ("block_hashes", numbers(&[u64::MAX, 2])),
        ("parent_block_hash", Number(9)),
        ("token_ids", numbers(&[5, 6, 7, 8])),
        ("block_size", Number(2)),
        ("lora_id", Number(4)),
        ("medium", Text("CPU")),
        ("lora_name", Text("sql")),
        ("extra_keys", extra),
        ("group_idx", Number(1)),
        ("kv_cache_spec_kind", Text("mla_attention")),
        ("kv_cache_spec_sliding_window", Nil),
        ("locality", Text("LOCAL")),
        ("of a later version", List(vec![Nil])),
    ];
    assert_eq!(only(map(&members)), Ok(Event::Stored(full.clone())));
    let values: Vec<_> = members.iter().map(|(_, member)| member.clone()).collect();
    assert_eq!(only(list(&values)), Ok(Event::Stored(full)));
    // As older versions write it: nothing behind what is needed.
    assert_eq!(only(list(&values[..5])), Ok(Event::Stored(plain())));
    let mut reversed = members.to_vec();
    reversed.reverse();
    assert_eq!(only(map(&reversed)), only(map(&members)));
}

#[test]
fn losses_are_read() {
    let removed = |tier, group| Ok(Event::Removed { blocks: vec![1], tier, group });
    let stored = [("type", Text("BlockRemoved")), ("block_hashes", numbers(&[1])), ("medium", Text("DISK"))];
    assert_eq!(only(map(&stored)), removed(Tier::Disk, None));
    assert_eq!(only(list(&[Text("BlockRemoved"), numbers(&[1])])), removed(Tier::Gpu, None));
    let members = [Text("BlockRemoved"), numbers(&[1]), Nil, Number(2), Nil, Nil];
    assert_eq!(only(list(&members)), removed(Tier::Gpu, Some(2)));
    assert_eq!(only(list(&[Text("AllBlocksCleared")])), Ok(Event::Cleared));
    assert_eq!(only(map(&[("type", Text("AllBlocksCleared"))])), Ok(Event::Cleared));
}

#[test]
fn names_of_blocks_are_numbers_or_bytes() {
    let of = |name: Member| match only(list(&[Text("BlockRemoved"), List(vec![name])])) {
        Ok(Event::Removed { blocks, .. }) => blocks[0],
        other => panic!("{other:?}"),
    };
    assert_eq!(of(Signed(-1)), u64::MAX);
    assert_eq!(of(Number(u64::MAX)), u64::MAX);
    assert_eq!(of(Bytes(vec![7; 32])), xxh3_64(&[7; 32]));
}

#[test]
fn what_distinguishes_blocks_is_told_apart() {
    let of = |extra: Member, name: Member| {
        let event = only(map(&[
            ("type", Text("BlockStored")),
            ("block_hashes", numbers(&[1])),
            ("token_ids", numbers(&[1])),
            ("block_size", Number(1)),
            ("lora_name", name),
            ("extra_keys", List(vec![extra])),
        ]));
        match event {
            Ok(Event::Stored(stored)) => stored.extra[0].clone(),
            other => panic!("{other:?}"),
        }
    };
    let text = |text: &str| Extra::Text(text.into());
    assert_eq!(of(Nil, Nil), Extra::None);
    assert_eq!(of(List(vec![]), Nil), Extra::None);
    assert_eq!(of(List(vec![Text("a")]), Nil), text("a"));
    assert_eq!(of(List(vec![Text("a")]), Text("a")), Extra::None);
    assert_eq!(of(List(vec![Text("b")]), Text("a")), text("b"));
    let image = List(vec![List(vec![Text("hash"), Number(0)])]);
    assert!(matches!(of(image.clone(), Nil), Extra::Other(_)));
    assert!(matches!(of(List(vec![image, Text("a")]), Nil), Extra::Other(_)));
    assert!(matches!(of(List(vec![Bytes(vec![1])]), Nil), Extra::Other(_)));
}

#[test]
fn an_adapter_without_a_name_has_a_number() {
    let members = [
        Text("BlockStored"),
        numbers(&[u64::MAX, 2]),
        Number(9),
        numbers(&[5, 6, 7, 8]),
        Number(2),
        Number(4),
    ];
    let numbered = Stored { adapter: Adapter::Numbered(4), ..plain() };
    assert_eq!(only(list(&members)), Ok(Event::Stored(numbered)));
}

#[test]
fn one_event_that_cannot_be_used_spoils_no_other() {
    let good = list(&[Text("BlockRemoved"), numbers(&[1])]);
    let batch = Batch::read(&message(
        &[
            list(&[Text("BlocksMoved"), Nil]),
            list(&[]),
            map(&[("block_hashes", numbers(&[1]))]),
            list(&[Text("BlockRemoved"), Text("many")]),
            list(&[Text("BlockRemoved"), List(vec![Nil])]),
            list(&[Text("BlockStored"), numbers(&[1]), Nil, List(vec![Signed(-1)]), Number(1)]),
            list(&[Text("BlockStored"), numbers(&[1]), Nil, numbers(&[1 << 32]), Number(1)]),
            list(&[Text("BlockStored"), numbers(&[1]), Nil, numbers(&[1]), Number(1 << 40)]),
            good,
        ],
        None,
    ));
    let events = batch.unwrap().events;
    assert_eq!(events[0], Err(Dropped::UnknownKind));
    assert!(events[1..8].iter().all(|event| *event == Err(Dropped::Malformed)), "{events:?}");
    assert!(events[8].is_ok());
}

#[test]
fn a_message_of_another_form_is_none() {
    let mut longer = message(&[], None);
    longer.push(0xc0);
    let mut unending = vec![0x92, 0xc0];
    unending.extend_from_slice(&[0xdd, 0xff, 0xff, 0xff, 0xff]);
    let many = [vec![0x92, 0x00, 0xdd, 0x00, 0x02, 0x00, 0x00], vec![0xc0; 1 << 17]].concat();
    for bytes in [Vec::new(), list(&[Nil, List(vec![])]), vec![0xc0], longer, unending, many] {
        assert_eq!(Batch::read(&bytes), Err(Dropped::Message));
    }
}

fn member() -> impl Strategy<Value = Member> {
    let leaf = prop_oneof![
        Just(Nil),
        any::<u64>().prop_map(Number),
        (-9_i64..9).prop_map(Signed),
        prop::sample::select(vec!["BlockStored", "BlockRemoved", "GPU", "x"]).prop_map(Text),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Bytes),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| proptest::collection::vec(inner, 0..6).prop_map(List))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_a_message_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Batch::read(&bytes);
    }

    #[test]
    fn any_members_are_an_event_or_none(
        kind in prop::sample::select(vec!["BlockStored", "BlockRemoved", "AllBlocksCleared"]),
        members in proptest::collection::vec(member(), 0..14),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let all = [vec![Text(kind)], members].concat();
        let mut bytes = message(&[list(&all)], None);
        prop_assert!(Batch::read(&bytes).is_ok());
        // The same with one byte that is another.
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = Batch::read(&bytes);
    }
}
