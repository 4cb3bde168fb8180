"""A client made with the official Python package. `sdk.py ERA WAY…`: ERA is `legacy` or a version; WAY is the address of a
server, or its command. It prints the name of each thing that it saw to hold."""

import sys

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

WAIT_SECONDS_MAX = 60
LOOK_SECONDS = 0.02

logged = []
progressed = []


async def elicited(_context, params):
    assert params.message, params
    fields = params.requested_schema["properties"]
    content = {name: True if field["type"] == "boolean" else f"a {name}" for name, field in fields.items()}
    return types.ElicitResult(action="accept", content=content)


async def sampled(_context, params):
    assert params.messages[0].role == "user", params
    text = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", content=text, model="test-model")


async def rooted(_context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///work", name="work")])


async def log(params):
    logged.append(params.data)


async def progress(done, total, message):
    progressed.append((done, total, message))


async def refusal(request):
    try:
        await request
    except MCPError as error:
        return error.code
    raise AssertionError("it was not refused")


async def until(look):
    with anyio.fail_after(WAIT_SECONDS_MAX):
        while not (seen := await look()):
            await anyio.sleep(LOOK_SECONDS)
    return seen


async def lists(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["welcome"].input_schema["required"] == ["name"], tools["welcome"]
    assert tools["welcome"].output_schema["required"] == ["greeting", "run_id"]
    assert tools["welcome"].annotations.read_only_hint is True
    assert list(tools) == sorted(tools), list(tools)
    prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
    assert "test_simple_prompt" in prompts, prompts
    resources = [resource.uri for resource in (await client.list_resources()).resources]
    assert "test://static-text" in resources, resources
    templates = (await client.list_resource_templates()).resource_templates
    assert "skillrun://runs/{id}" in [template.uri_template for template in templates], templates


async def structured(client):
    result = await client.call_tool("welcome", {"name": "Ada"})
    assert result.structured_content["greeting"] == "Hello, Ada!", result
    run_id = result.structured_content["run_id"]
    assert result.meta["skillrun/run_id"] == run_id, result
    kinds = [block.type for block in result.content]
    assert kinds == ["text", "resource_link"], result
    run = await client.read_resource(result.content[1].uri)
    assert f'"{run_id}"' in run.contents[0].text, run


async def mixed(client):
    result = await client.call_tool("test_multiple_content_types", {})
    kinds = [block.type for block in result.content]
    assert kinds[:3] == ["text", "image", "resource"], result


async def reads(client):
    arguments = {"arg1": "one", "arg2": "two"}
    prompt = await client.get_prompt("test_prompt_with_arguments", arguments)
    assert "one" in prompt.messages[0].content.text, prompt
    resource = await client.read_resource("test://template/7/data")
    assert resource.contents[0].mime_type == "application/json", resource
    ref = types.ResourceTemplateReference(type="ref/resource", uri="skillrun://runs/{id}")
    done = await client.complete(ref, {"name": "id", "value": "run_"})
    assert all(value.startswith("run_") for value in done.completion.values), done


async def reports(client):
    result = await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
    assert result.content[0].text == "It is done.", result
    assert [done for done, _total, _message in progressed] == [0, 50, 100], progressed
    assert progressed[2] == (100, 100, "100 of 100")


async def logs(client):
    if client.protocol_version < "2026":
        await client.set_logging_level("info")
    await client.call_tool("test_tool_with_logging", {})

    lines = ["Tool execution started", "Tool processing data", "Tool execution completed"]

    async def came():
        return [line["message"] for line in logged][-3:] == lines

    await until(came)


async def questions(client):
    result = await client.call_tool("test_elicitation", {"message": "Who?"})
    assert '"username":"a username"' in result.content[0].text, result
    result = await client.call_tool("test_sampling", {"prompt": "Capital?"})
    assert result.content[0].text == "LLM response: Paris", result
    result = await client.call_tool("test_input_required_result_list_roots", {})
    assert "file:///work" in result.content[0].text, result
    result = await client.call_tool("test_input_required_result_multi_round", {})
    assert result.content[0].text == "a name likes a color.", result


async def errors(client):
    failed = await client.call_tool("test_error_handling", {})
    assert failed.is_error and "intentionally" in failed.content[0].text, failed
    unfit = await client.call_tool("welcome", {"name": 1})
    assert unfit.is_error and "$.name" in unfit.content[0].text, unfit
    assert await refusal(client.call_tool("none", {})) == -32602
    assert await refusal(client.get_prompt("none")) == -32602
    missing = -32002 if client.protocol_version < "2026" else -32602
    assert await refusal(client.read_resource("test://none")) == missing


async def running(client):
    resources = (await client.list_resources(cache_mode="bypass")).resources
    ours = (one for one in resources if one.uri.startswith("skillrun://runs/"))
    return next((one.uri for one in ours if "running" in (one.description or "")), None)


async def cancellation(client):
    async with anyio.create_task_group() as calls:
        calls.start_soon(client.call_tool, "slow_compute", {"seconds": 3600, "label": "a"})
        uri = await until(lambda: running(client))
        calls.cancel_scope.cancel()

    async def is_cancelled():
        run = await client.read_resource(uri, cache_mode="bypass")
        return '"cancelled"' in run.contents[0].text

    await until(is_cancelled)


CHECKS = [lists, structured, mixed, reads, reports, logs, questions, errors, cancellation]


async def main(era, way):
    server = way[0]
    if not server.startswith("http"):
        server = stdio_client(StdioServerParameters(command=way[0], args=way[2:], env={"SKILLRUN_HOME": way[1]}))
    client = Client(
        server, mode=era, sampling_callback=sampled, elicitation_callback=elicited, list_roots_callback=rooted,
        logging_callback=log, log_level="info", read_timeout_seconds=WAIT_SECONDS_MAX,
    )
    async with client:
        print(client.protocol_version)
        assert client.server_info.name == "skillrun", client.server_info
        for check in CHECKS:
            await check(client)
            print(check.__name__)


anyio.run(main, sys.argv[1], sys.argv[2:])
